#include "comm/nccl/nccl_calls.hpp"

#include "base/error.hpp"
#include "base/notice.hpp"
#include "base/stopwatch.hpp"
#include "comm/nccl/nccl_error.hpp"

#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <thread>
#include <utility>

namespace gpt {
namespace {

using namespace std::chrono_literals;

/// A started group ends, whatever leaves it.
class OpenGroup {
public:
  OpenGroup() : started_(ncclGroupStart()) {}
  ~OpenGroup() {
    if (is_open_) ncclGroupEnd();
  }
  OpenGroup(const OpenGroup&) = delete;
  OpenGroup& operator=(const OpenGroup&) = delete;

  ncclResult_t end() {
    is_open_ = false;
    return started_ == ncclSuccess ? ncclGroupEnd() : started_;
  }

private:
  ncclResult_t started_;
  bool is_open_ = true;
};

}  // namespace

NcclCalls::~NcclCalls() {
  if (given_up_) return;
  if (std::uncaught_exceptions() > 0) {
    abort();
    return;
  }
  try {
    finish();
  } catch (const std::exception& error) {
    notice(fmt::format("warning: at the end, {}", error.what()));
    abort();
  }
}

ncclComm_t NcclCalls::connect(const ncclUniqueId& id, int rank, int ranks) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t* comm = nullptr;
  {
    const std::lock_guard lock(calling_);
    comm = &new_place();
    check_nccl(ncclCommInitRankConfig(comm, ranks, id, rank, &config));
  }
  settle(*comm, "connect all ranks");
  return *comm;
}

ncclComm_t NcclCalls::split(ncclComm_t whole, int color, int key) {
  ncclComm_t* part = nullptr;
  call(whole, [&] {
    part = &new_place();
    return ncclCommSplit(whole, color, key, part, nullptr);
  });
  if (color == NCCL_SPLIT_NOCOLOR) return nullptr;
  // A thread of NCCL writes it, not always before the whole has taken the call (NCCL's issue 1472).
  const std::atomic_ref<ncclComm_t> there(*part);
  const Stopwatch watch;
  while (there.load() == nullptr) {
    validate(watch.seconds() < timeout_, ExitCode::rank_failed,
             "NCCL gave no communicator for a part of the ranks within {:g} s", timeout_);
    std::this_thread::sleep_for(200us);
  }
  settle(*part, "connect a part of the ranks");
  return *part;
}

void NcclCalls::call(ncclComm_t comm, const std::function<ncclResult_t()>& call) {
  {
    const std::lock_guard lock(calling_);
    check_given_up();
    check_nccl(call(), comm);
  }
  settle(comm, "take a call");
}

void NcclCalls::group(ncclComm_t comm, const std::function<void()>& body) {
  {
    const std::lock_guard lock(calling_);
    check_given_up();
    OpenGroup group;
    body();
    check_nccl(group.end(), comm);
  }
  settle(comm, "take a group of calls");
}

std::optional<std::string> NcclCalls::fault() {
  const std::unique_lock lock(calling_, std::try_to_lock);
  if (!lock || given_up_) return {};
  for (const ncclComm_t comm : known()) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
    if (asked != ncclSuccess) state = asked;
    if (state != ncclSuccess && state != ncclInProgress) return describe_nccl_error(state, comm);
  }
  return {};
}

void NcclCalls::abort() noexcept {
  if (given_up_.exchange(true)) return;
  // Whoever is in a call may be there for ever; NCCL lets others abort then.
  const std::unique_lock lock(calling_, 200ms);
  for (const ncclComm_t comm : known()) ncclCommAbort(comm);
}

ncclComm_t& NcclCalls::new_place() { return comms_.emplace_back(nullptr); }

std::vector<ncclComm_t> NcclCalls::known() const {
  std::vector<ncclComm_t> known = {comms_.begin(), comms_.end()};
  std::erase(known, nullptr);
  return known;
}

void NcclCalls::check_given_up() const {
  validate(!given_up_, ExitCode::failed, "communication was given up, because a rank failed");
}

ncclResult_t NcclCalls::state_of(ncclComm_t comm) {
  const std::lock_guard lock(calling_);
  check_given_up();
  ncclResult_t state = ncclSuccess;
  check_nccl(ncclCommGetAsyncError(comm, &state), comm);
  check_nccl(state, comm);
  return state;
}

void NcclCalls::settle(ncclComm_t comm, std::string_view work) {
  const Stopwatch watch;
  for (int64_t looks = 0; state_of(comm) == ncclInProgress; ++looks) {
    validate(watch.seconds() < timeout_, ExitCode::rank_failed, "NCCL did not {} within {:g} s. {}", work,
             timeout_, network_advice());
    if (looks < 100)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(200us);
  }
}

void NcclCalls::finish() {
  while (!comms_.empty()) {
    const ncclComm_t comm = comms_.back();  // parts before the whole
    if (comm != nullptr) call(comm, [&] { return ncclCommFinalize(comm); });
    const std::lock_guard lock(calling_);
    comms_.pop_back();
    if (comm != nullptr) check_nccl(ncclCommDestroy(comm));
  }
}

}  // namespace gpt
