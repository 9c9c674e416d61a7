#include "base/error.hpp"
#include "comm/every_comm.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <vector>

namespace gpt {
namespace {

using test::Guarded;
using test::make_world;

constexpr Wire wires[] = {{DType::f32, DType::f32},
                          {DType::bf16, DType::bf16},
                          {DType::bf16, DType::f32},
                          {DType::f32, DType::bf16}};

// Numbers of which neither sums nor bf16 are exact.
float uneven(int rank, int64_t i) {
  const auto step = static_cast<float>((i * 37 + rank * 101) % 1009 + 1);
  return (i + rank) % 3 == 0 ? -1.0F / step : std::sqrt(step);
}

template <class T>
std::vector<T> summed(const World& world, const CommPlan& plan, bool expect_shared, Queue& queue) {
  const auto comm = make_hierarchical_comm(world, plan);
  INFO(comm->name());
  CHECK((comm->allocator() != nullptr) == expect_shared);
  Guarded<T> data(*comm, 20011);
  for (int64_t i = 0; i < data.size(); ++i) data[i] = T(uneven(comm->rank(), i));
  comm->all_reduce(data.tensor(), data.tensor(), queue);
  CHECK(data.intact());
  return {&data[0], &data[0] + data.size()};
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// All ranks of the job on one node, with a buffer in their shared memory.
struct OneNode {
  std::unique_ptr<Device> device = make_cpu_device(1);
  std::unique_ptr<Queue> queue = device->make_queue();
  std::unique_ptr<World> world;
  std::unique_ptr<Comm> comm;

  /// Whether that is possible: several ranks that share memory.
  bool make() {
    const int ranks = make_world("")->size();
    const std::vector<int> found = test::found_nodes();
    if (ranks < 2 || std::ranges::count(found, found.front()) != ranks) return false;
    world = make_world(std::to_string(ranks));
    comm = make_hierarchical_comm(*world);
    return comm->allocator() != nullptr;
  }

  static void wait_for_all() { MPI_Barrier(MPI_COMM_WORLD); }
};

}  // namespace

TEST_CASE_TEMPLATE("sums through shared memory have the bits of sums by messages", T, float, bfloat16,
                   double) {
  const auto device = make_cpu_device(1);
  const auto queue = device->make_queue();
  for (const std::string& layout : test::layouts_for(make_world("")->size())) {
    const auto world = make_world(layout);
    for (const Wire& wire : wires) {
      CommPlan plan{.wire_node = wire.node, .wire_peers = wire.peers, .block_bytes = test::small_blocks};
      INFO("layout ", layout, ", wire ", name_of(wire.node), ",", name_of(wire.peers));
      const std::vector<T> shared = summed<T>(*world, plan, world->node_size() > 1, *queue);
      plan.shared_memory = false;
      CHECK(same_bits(shared, summed<T>(*world, plan, false, *queue)));
    }
  }
}

TEST_CASE_FIXTURE(OneNode, "ranks of a node that give different memory hear of it") {
  if (!make()) return;
  constexpr int64_t count = 5000;
  const TensorBuffer shared(*comm->allocator(), DType::f32, {2 * count});
  std::vector<float> own(static_cast<size_t>(count));
  const Tensor whole = shared, first = whole.flat({0, count}), second = whole.flat({count, 2 * count});
  const Tensor longer = whole.flat({0, count + 1}), private_data(own.data(), DType::f32, {count});
  const bool odd_one = world->rank() == world->size() - 1;
  for (const Tensor& other : {second, longer, private_data}) {
    const Tensor mine = odd_one ? other : first;
    CHECK_THROWS_AS(comm->all_reduce(mine, mine, *queue), Error);
    wait_for_all();
    CHECK_THROWS_AS(comm->all_gather(mine, *queue), Error);
    wait_for_all();
  }
  // The same again on all: nothing of that stays.
  for (const Tensor& data : {first, second, private_data}) {
    for (int64_t i = 0; i < count; ++i) data.data<float>()[i] = 1.0F;
    comm->all_reduce(data, data, *queue);
    CHECK(std::ranges::all_of(std::span(data.data<float>(), count),
                              [&](float x) { return x == static_cast<float>(comm->size()); }));
  }
}

TEST_CASE_FIXTURE(OneNode, "memory may be allocated and released while sums of other memory are under way") {
  if (!make()) return;
  const auto communication = device->make_communication_queue();
  Guarded<float> data(*comm, 30011);
  for (int64_t i = 0; i < data.size(); ++i) data[i] = 1.0F;
  std::vector<Buffer> buffers;
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    comm->all_reduce(data.tensor(), data.tensor(), *communication);
    for (int i = 0; i < 3; ++i) buffers.emplace_back(*comm->allocator(), 4096);
    if (round % 3 == 2) buffers.erase(buffers.begin(), buffers.begin() + 5);
  }
  communication->synchronize();
  const double expected = std::pow(comm->size(), rounds);
  CHECK(data.differences({0, data.size()}, [&](int64_t) { return expected; }) == 0);
}

TEST_CASE_FIXTURE(OneNode, "a name says shared memory only while all that was asked for is shared") {
  if (!make()) return;
  const auto says = [&](const char* what) { return comm->name().find(what) != std::string::npos; };
  {
    const Buffer roomy(*comm->allocator(), int64_t{9} << 20);
    CHECK(says("shared memory inside"));
  }
  // As in a /dev/shm of 8 MiB.
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  const struct rlimit now { rlim_t{8} << 20, before.rlim_max };
  setrlimit(RLIMIT_FSIZE, &now);
  {
    const Buffer cramped(*comm->allocator(), int64_t{9} << 20);
    CHECK(says("messages inside"));
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(says("shared memory inside"));
}

}  // namespace gpt
