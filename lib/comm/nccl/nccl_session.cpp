#include "comm/nccl_session.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "comm/grouping.hpp"
#include "comm/nccl/nccl_calls.hpp"
#include "comm/nccl/nccl_comm.hpp"
#include "comm/nccl/nccl_error.hpp"
#include "comm/nccl/nccl_settings.hpp"
#include "comm/nccl/start_sum.hpp"
#include "comm/shared_error.hpp"
#include "device/cuda/native.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace gpt {
namespace {

/// The name under which all ranks find each other, made by the root. Collective.
ncclUniqueId agree_on_id(const World& world) {
  ncclUniqueId id{};
  world.everywhere([&] {
    if (world.is_root()) check_nccl(ncclGetUniqueId(&id));
  });
  const std::string bytes = world.broadcast({id.internal, sizeof id.internal});
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);
  return id;
}

NcclGroup connect_world(const World& world, Device& device, const std::shared_ptr<NcclCalls>& calls) {
  set_nccl_defaults();
  compare_ranks(world, nccl_facts());
  require_nccl_version();
  const ncclUniqueId id = agree_on_id(world);
  fault_point("comm.nccl");
  use_cuda_device(cuda_index(device));
  const Watchdog::Waiting waiting(world.watchdog());
  return {calls, calls->connect(id, world.rank(), world.size()), world.rank(), world.size()};
}

[[noreturn]] void refuse_tree() {
  throw SharedError(
      "--reduction tree sums over CPUs only: NCCL adds in an order of its own, and a tree's bits are those "
      "of "
      "one order. Take another --reduction, or --device cpu",
      ExitCode::usage);
}

class NcclSession final : public CommSession {
public:
  NcclSession(const World& world, Device& device, const NcclSettings& settings,
              const std::function<void(const std::string&)>& say)
      : world_(world),
        device_(device),
        calls_(std::make_shared<NcclCalls>(settings.timeout)),
        all_(connect_world(world, device, calls_)) {
    const double seconds =
        try_all_reduce(world, all_, *calls_, device, settings.test_bytes, settings.timeout);
    const double bytes = static_cast<double>(settings.test_bytes);
    const double ranks = world.size();
    say(fmt::format(
        "{}: {} rank{} connected; an all-reduce of {:.1f} MiB takes {:.3f} ms, {:.1f} GB/s a rank", name(),
        world.size(), world.size() == 1 ? "" : "s", bytes / 0x1p20, seconds * 1e3,
        2.0 * (ranks - 1.0) / ranks * bytes / seconds * 1e-9));
    world.watchdog().look_after([calls = calls_] { return calls->fault(); },
                                [calls = calls_] { calls->abort(); });
  }

  ~NcclSession() override {
    world_.watchdog().look_away();
    if (std::uncaught_exceptions() > exceptions_) give_up();
  }
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  std::string name() const override { return "NCCL " + loaded_nccl_version(); }
  bool heeds_inter() const override { return false; }

  std::unique_ptr<Comm> make(const CommPlan& plan) override {
    if (plan.reduction == Reduction::tree) refuse_tree();
    validate_plan(plan);
    const NodeOfRank everywhere(static_cast<size_t>(world_.size()), 0);
    const NodeOfRank layout = plan.reduction == Reduction::flat ? everywhere : grouping_of(world_).layout;
    if (layout == everywhere) return make_nccl_comm({.world = all_, .node = &all_}, layout, plan, device_);
    split(layout);
    return make_nccl_comm({.world = all_, .node = node_.get(), .lane = lane_.get()}, layout, plan, device_);
  }

  std::unique_ptr<Comm> make_tree(const CommPlan&, const std::vector<Range>&) override { refuse_tree(); }

  void give_up() noexcept override {
    // NCCL may hang where it ends, and this rank must not: it is on its way to say why.
    try {
      auto done = std::make_shared<std::promise<void>>();
      const std::future<void> end = done->get_future();
      std::thread([calls = calls_, done] {
        calls->abort();
        done->set_value();
      }).detach();
      end.wait_for(std::chrono::seconds(1));
    } catch (const std::system_error&) {  // no thread to be had
      calls_->abort();
    }
  }

private:
  /// Once: communicators take long to connect, and every Comm has them in its own time.
  void split(const NodeOfRank& layout) {
    if (node_) return;
    const Watchdog::Waiting waiting(world_.watchdog());
    const NodePlace place = place_of(world_.rank(), layout);
    const int lanes = std::ranges::min(ranks_per_node(layout));
    node_ = all_.split(place.node, place.index);
    lane_ = all_.split(place.index < lanes ? place.index : -1, place.node);
  }

  const World& world_;
  Device& device_;
  const int exceptions_ = std::uncaught_exceptions();
  std::shared_ptr<NcclCalls> calls_;
  NcclGroup all_;
  std::unique_ptr<NcclGroup> node_, lane_;
};

}  // namespace

std::unique_ptr<CommSession> make_nccl_session(const World& world, Device& device,
                                               const NcclSettings& settings,
                                               const std::function<void(const std::string&)>& say) {
  return std::make_unique<NcclSession>(world, device, settings, say);
}

}  // namespace gpt
