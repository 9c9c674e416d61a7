#pragma once

#include "comm/comm.hpp"

#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace gpt {

/// What connects the ranks of a job for one kind of memory. Communicators are made from it, as many as are
/// needed; it outlives them.
class CommSession {
public:
  virtual ~CommSession() = default;

  /// "MPI", "NCCL 2.28.9": with it change the bits of sums.
  virtual std::string name() const = 0;

  /// Whether CommPlan::inter says how nodes sum; else the library chooses.
  virtual bool heeds_inter() const = 0;

  /// Collective over the world. @throws Error(usage) for a plan that these ranks or this memory cannot follow
  virtual std::unique_ptr<Comm> make(const CommPlan& plan) = 0;

  /// The same for sums along the tree over leaves. @param leaves_of_rank  consecutive, by rank; none is empty
  virtual std::unique_ptr<Comm> make_tree(const CommPlan& plan, const std::vector<Range>& leaves_of_rank) = 0;

  /// Ends what is under way as it is: nobody will answer, or this rank is about to fail. Only destructors may
  /// follow.
  virtual void give_up() noexcept {}
};

/// For host memory: make_comm.
std::unique_ptr<CommSession> make_mpi_session(const World& world);

/// Declared behind all that uses a session's communicators. When an exception passes, communication is given
/// up before anything else ends: what waits for a GPU to be idle would wait for ranks that wait for this one.
class GiveUpOnFailure {
public:
  explicit GiveUpOnFailure(CommSession& session) : session_(session) {}
  ~GiveUpOnFailure() {
    if (std::uncaught_exceptions() > exceptions_) session_.give_up();
  }
  GiveUpOnFailure(const GiveUpOnFailure&) = delete;
  GiveUpOnFailure& operator=(const GiveUpOnFailure&) = delete;

private:
  CommSession& session_;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace gpt
