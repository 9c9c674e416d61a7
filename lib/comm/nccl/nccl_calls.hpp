#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <nccl.h>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

/// The communicators of a session and the one place where NCCL is called about them. They are nonblocking:
/// calls return at once, and here the caller waits, for `timeout` seconds at most, until NCCL has taken them;
/// not until they are done on the device. Another thread may look for faults and abort meanwhile.
class NcclCalls {
public:
  explicit NcclCalls(double timeout) : timeout_(timeout) {}
  /// Ends all communicators: waits for their operations, unless they were given up or an exception passes.
  ~NcclCalls();
  NcclCalls(const NcclCalls&) = delete;
  NcclCalls& operator=(const NcclCalls&) = delete;

  /// A communicator of `ranks` ranks. Collective over them.
  /// @throws Error(rank_failed) if NCCL fails or does not find all of them in time; says what to look at
  ncclComm_t connect(const ncclUniqueId& id, int rank, int ranks);

  /// Parts `whole`: one communicator for each color, ordered by key; null with NCCL_SPLIT_NOCOLOR. Collective
  /// over `whole`.
  ncclComm_t split(ncclComm_t whole, int color, int key);

  /// Calls NCCL about `comm`. @throws Error(rank_failed) if that fails, Error if all was given up
  void call(ncclComm_t comm, const std::function<ncclResult_t()>& call);

  /// All that `body` calls about `comm`, each with check_nccl, as one: NCCL starts it together.
  void group(ncclComm_t comm, const std::function<void()>& body);

  /// What failed on its own; nothing when all is well, was given up, or NCCL is being called. From any
  /// thread.
  std::optional<std::string> fault();

  /// Ends everything under way; nothing may be called any more. From any thread; may hang when NCCL does.
  void abort() noexcept;

private:
  ncclComm_t& new_place();
  std::vector<ncclComm_t> known() const;
  void settle(ncclComm_t comm, std::string_view work);
  ncclResult_t state_of(ncclComm_t comm);
  void check_given_up() const;
  void finish();

  double timeout_;
  std::timed_mutex calling_;
  std::deque<ncclComm_t> comms_;  // stay where they are: NCCL writes a part's when it is there; null before
  std::atomic<bool> given_up_ = false;
};

}  // namespace gpt
