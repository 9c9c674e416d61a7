#include "comm/inter.hpp"

#include "base/error.hpp"
#include "comm/collective_cost.hpp"
#include "comm/exchange.hpp"

#include <algorithm>
#include <bit>
#include <fmt/ranges.h>
#include <limits>
#include <utility>

namespace gpt {
namespace {

constexpr int64_t any_number = std::numeric_limits<int64_t>::max();

bool fits_always(int64_t) { return true; }
bool is_power_of_two(int64_t nodes) { return std::has_single_bit(static_cast<uint64_t>(nodes)); }

CostTerms owners_cost(int64_t nodes, double bytes, const Link&) { return ring_all_reduce(nodes, bytes); }

// The collectives of one communicator must start in one order on all its members, so that blocks of the
// library go one by one; large ones then, or each would pay its latency alone.
const InterWay ways[] = {
    {.inter = Inter::library,
     .name = "mpi",
     .title = "MPI",
     .under_way = 1,
     .block_bytes = int64_t{64} << 20,
     .fits = fits_always,
     .needs = "",
     .make = [](MPI_Comm peers, int64_t chunk, SumOrder) { return make_library(peers, chunk); },
     .cost = library_all_reduce},
    {.inter = Inter::ring,
     .name = "ring",
     .title = "a ring",
     .under_way = any_number,
     .block_bytes = 0,
     .fits = fits_always,
     .needs = "",
     .make = [](MPI_Comm peers, int64_t, SumOrder) { return make_ring(peers); },
     .cost = owners_cost},
    {.inter = Inter::halving,
     .name = "halving",
     .title = "halving",
     .under_way = any_number,
     .block_bytes = 0,
     .fits = is_power_of_two,
     .needs = "a power of two of nodes",
     .make = [](MPI_Comm peers, int64_t, SumOrder) { return make_halving(peers); },
     .cost = [](int64_t nodes, double bytes, const Link&) { return halving_all_reduce(nodes, bytes); }},
    {.inter = Inter::direct,
     .name = "direct",
     .title = "direct",
     .under_way = any_number,
     .block_bytes = 0,
     .fits = fits_always,
     .needs = "",
     .make = [](MPI_Comm peers, int64_t, SumOrder order) { return make_direct(peers, std::move(order)); },
     .cost = owners_cost},
};

}  // namespace

std::span<const InterWay> inter_ways() { return ways; }

const InterWay& way_of(Inter inter) { return *std::ranges::find(ways, inter, &InterWay::inter); }

std::vector<std::string_view> inter_names() {
  std::vector<std::string_view> names;
  for (const InterWay& way : ways) names.push_back(way.name);
  return names;
}

Inter inter_named(std::string_view name) {
  const auto* const found = std::ranges::find(ways, name, &InterWay::name);
  validate(found != std::end(ways), "--inter {}: use {}", name, fmt::join(inter_names(), ", "));
  return found->inter;
}

void validate_fits(Inter inter, int64_t nodes) {
  const InterWay& way = way_of(inter);
  validate(way.fits(nodes), "--inter {} needs {}, here are {}: use --inter ring", way.name, way.needs, nodes);
}

}  // namespace gpt
