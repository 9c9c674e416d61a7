#pragma once

#include "base/mpi.hpp"
#include "comm/pace.hpp"
#include "device/tensor.hpp"

#include <atomic>
#include <cstdint>
#include <vector>

namespace gpt {

/// A duplicate whose errors come back as return codes. Collective over `group`.
CommHandle duplicate(MPI_Comm group);

class Requests;

/// All that one thread has under way in MPI, tested in one call: each test by itself lets the library look at
/// all its connections, which costs more than the messages when many are under way.
class RequestPool {
public:
  /// Lets MPI move everything on, and notes what is done. @throws Error(rank_failed) if something failed; it
  /// names the rank at the other end where there is one
  void progress();

  Pace& pace() { return pace_; }

private:
  friend Requests;
  friend class Turn;

  struct Entry {
    Requests* owner;  // null: it is gone
    int peer;         // its rank in the job
  };

  void drop_finished();
  [[noreturn]] void fail(int rc, int finished) const;

  std::vector<MPI_Request> requests_;
  std::vector<Entry> entries_;  // of each
  std::vector<int> finished_;
  std::vector<MPI_Status> statuses_;
  Pace pace_;
  std::atomic<bool> is_taken_ = false;
};

/// An operation's turn to use a pool and all that is kept beside it.
class Turn {
public:
  /// @throws Error if another operation has its turn
  explicit Turn(RequestPool& pool);
  ~Turn() { pool_.is_taken_ = false; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

private:
  RequestPool& pool_;
};

/// Messages and collectives that belong together, under way in a pool. Their memory must stay until all are
/// done.
class Requests {
public:
  explicit Requests(RequestPool& pool) : pool_(pool) {}
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  static constexpr int nobody = -1;

  /// For MPI to fill in, at once; what it leaves null counts as done.
  /// @param peer  rank in the job at the other end of a message
  MPI_Request& add(int peer = nobody);

  /// Whether all are done, as far as the pool knows.
  bool are_done() const { return pending_ == 0; }

private:
  friend RequestPool;

  RequestPool& pool_;
  int64_t pending_ = 0;
};

/// Nonblocking messages inside one communicator, of which it holds a duplicate. Messages between two ranks
/// under one tag arrive in the order in which they were sent; empty ones are not sent at all.
/// @throws Error(usage) for a message of more bytes than MPI counts, 2³¹ − 1
class Messages {
public:
  /// Collective over `group`.
  explicit Messages(MPI_Comm group);
  ~Messages();

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// The member that stands `distance` places after this one, or before it, in a circle.
  int neighbour(int distance) const;

  void send(Requests& requests, Tensor data, int to, int tag) const;
  void receive(Requests& requests, Tensor data, int from, int tag) const;

private:
  CommHandle comm_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<int> job_ranks_;  // of the members
};

}  // namespace gpt
