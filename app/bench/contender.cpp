#include "bench/contender.hpp"

#include "bench/plan_name.hpp"
#include "comm/node_memory.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <utility>

namespace gpt {
namespace {

class CommContender final : public Contender {
public:
  CommContender(const World& world, Device& device, const ContenderPlan& plan)
      : name_(plan.name), comm_(make_comm(world, plan.plan)), queue_(device.make_communication_queue()) {}

  std::string name() const override { return name_; }
  Allocator* allocator() override { return comm_->allocator(); }

  void run(Collective collective, Tensor out, Tensor in) override {
    switch (collective) {
      case Collective::all_reduce:
        comm_->all_reduce(out, in, *queue_);
        break;
      case Collective::reduce_scatter:
        comm_->reduce_scatter(out, *queue_);
        break;
      case Collective::all_gather:
        comm_->all_gather(out, *queue_);
        break;
      case Collective::broadcast:
        comm_->broadcast(out, 0, *queue_);
        break;
    }
    queue_->synchronize();
  }

  std::vector<Piece> results(Collective collective, int64_t count) const override {
    if (collective != Collective::reduce_scatter) return {{.at = {0, count}, .first = 0}};
    const Range owned = comm_->owned(count);
    const Range tail = comm_->tail(count);
    return {{.at = owned, .first = owned.begin}, {.at = tail, .first = tail.begin}};
  }

  std::vector<Range> given(int64_t count) const override { return {comm_->owned(count), comm_->tail(count)}; }

private:
  std::string name_;
  std::unique_ptr<Comm> comm_;
  std::unique_ptr<Queue> queue_;
};

/// @throws Error(usage) where MPI has no such type
MPI_Datatype library_type(DType dtype) {
  validate(dtype == DType::f32 || dtype == DType::f64,
           "--what mpi: MPI has no {}: use --dtype f32 or f64, or leave mpi out, as in --what "
           "flat,hierarchical",
           gpt::name_of(dtype));
  return dtype == DType::f32 ? MPI_FLOAT : MPI_DOUBLE;
}

/// The library's blocking collectives, in one call each.
class LibraryContender final : public Contender {
public:
  explicit LibraryContender(const World& world)
      : comm_(world.world()), rank_(world.rank()), ranks_(world.size()) {}

  std::string name() const override { return "mpi"; }

  void run(Collective collective, Tensor out, Tensor in) override {
    validate(out.size() <= INT_MAX, "--what mpi: one call takes up to {} elements: use smaller messages",
             INT_MAX);
    const MPI_Datatype type = library_type(out.dtype());
    const int count = static_cast<int>(out.size());
    void* const from = out.raw() == in.raw() ? MPI_IN_PLACE : in.raw();
    switch (collective) {
      case Collective::all_reduce:
        return check_mpi(MPI_Allreduce(from, out.raw(), count, type, MPI_SUM, comm_));
      case Collective::reduce_scatter:
        return check_mpi(
            MPI_Reduce_scatter(MPI_IN_PLACE, out.raw(), sizes(count).data(), type, MPI_SUM, comm_));
      case Collective::all_gather:
        return check_mpi(MPI_Allgatherv(MPI_IN_PLACE, 0, type, out.raw(), sizes(count).data(),
                                        begins(count).data(), type, comm_));
      case Collective::broadcast:
        return check_mpi(MPI_Bcast(out.raw(), count, type, 0, comm_));
    }
  }

  std::vector<Piece> results(Collective collective, int64_t count) const override {
    if (collective != Collective::reduce_scatter) return {{.at = {0, count}, .first = 0}};
    const Range part = part_of(count, ranks_, rank_);
    return {{.at = {0, part.size()}, .first = part.begin}};
  }

  std::vector<Range> given(int64_t count) const override { return {part_of(count, ranks_, rank_)}; }

private:
  std::vector<int> sizes(int64_t count) const {
    std::vector<int> all;
    for (int rank = 0; rank < ranks_; ++rank)
      all.push_back(static_cast<int>(part_of(count, ranks_, rank).size()));
    return all;
  }
  std::vector<int> begins(int64_t count) const {
    std::vector<int> all;
    for (int rank = 0; rank < ranks_; ++rank)
      all.push_back(static_cast<int>(part_of(count, ranks_, rank).begin));
    return all;
  }

  MPI_Comm comm_;
  int rank_, ranks_;
};

}  // namespace

Collective collective_named(const std::string& name) {
  for (const Collective one :
       {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather, Collective::broadcast})
    if (name == name_of(one)) return one;
  throw Error(fmt::format("--collective {}: use all_reduce, reduce_scatter, all_gather or broadcast", name),
              ExitCode::usage);
}

const char* name_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::reduce_scatter:
      return "reduce_scatter";
    case Collective::all_gather:
      return "all_gather";
    case Collective::broadcast:
      return "broadcast";
  }
  return "?";
}

double bus_factor(Collective collective, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  if (collective == Collective::all_reduce) return 2.0 * share;
  return collective == Collective::broadcast ? 1.0 : share;
}

std::vector<ContenderPlan> contender_plans(const ContenderNames& names, Collective collective, DType dtype,
                                           int64_t nodes) {
  const bool sums = collective == Collective::all_reduce || collective == Collective::reduce_scatter;
  std::vector<ContenderPlan> plans;
  const auto add = [&](const std::string& what, const CommPlan& asked) {
    const PlanInEffect effect = plan_in_effect(asked, dtype, sums, nodes);
    const std::string name = what == "mpi" ? what : effect.name;
    if (std::ranges::find(plans, name, &ContenderPlan::name) != plans.end()) return;
    plans.push_back({.name = name, .what = what, .inter = effect.inter, .plan = effect.plan});
  };
  for (const std::string& what : names.what) {
    if (what == "mpi") {
      library_type(dtype);
      add(what, {.reduction = Reduction::flat});
      continue;
    }
    validate(what == "flat" || what == "hierarchical" || what == "tree",
             "--what {}: use mpi, flat, hierarchical, tree", what);
    if (what != "hierarchical") {
      add(what, {.reduction = reduction_named(what)});
      continue;
    }
    for (const std::string& inter : names.inter)
      for (const std::string& wire : names.wire) {
        const Wire hops = wire_named(wire);
        add(what, {.reduction = Reduction::hierarchical,
                   .inter = inter_named(inter),
                   .wire_node = hops.node,
                   .wire_peers = hops.peers});
        validate_fits(plans.back().plan.inter, nodes);
      }
  }
  return plans;
}

std::optional<bool> is_seen_in_nodes(const World& world, Contender& contender, const Tensor& data) {
  const bool has_company = world.node_size() > 1;
  const auto* const memory = dynamic_cast<const NodeMemory*>(contender.allocator());
  const bool seen = memory != nullptr && memory->find(data).has_value();
  std::array<int, 2> any = {has_company ? 1 : 0, has_company && !seen ? 1 : 0};
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, any.data(), 2, MPI_INT, MPI_MAX, world.world()));
  if (any[0] == 0) return std::nullopt;
  return any[1] == 0;
}

std::unique_ptr<Contender> make_contender(const World& world, Device& device, const ContenderPlan& plan) {
  if (plan.what == "mpi") return std::make_unique<LibraryContender>(world);
  return std::make_unique<CommContender>(world, device, plan);
}

}  // namespace gpt
