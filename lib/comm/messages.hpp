#pragma once

#include "base/mpi.hpp"
#include "device/tensor.hpp"

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
  /// Lets MPI move everything on, and notes what is done. @throws Error(rank_failed) if something failed
  void progress();

private:
  friend Requests;

  std::vector<MPI_Request> requests_;
  std::vector<Requests*> owners_;  // of each; null: it is gone
  std::vector<int> finished_;
};

/// Messages and collectives that belong together, under way in a pool. Their memory must stay until all are
/// done.
class Requests {
public:
  explicit Requests(RequestPool& pool) : pool_(pool) {}
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  /// For MPI to fill in, at once.
  MPI_Request& add();

  /// Whether all are done, as far as the pool knows.
  bool are_done() const { return pending_ == 0; }

private:
  friend RequestPool;

  RequestPool& pool_;
  int64_t pending_ = 0;
};

/// Nonblocking messages inside one communicator, of which it holds a duplicate. Messages between two ranks
/// under one tag arrive in the order in which they were sent; empty ones are not sent at all.
class Messages {
public:
  /// Collective over `group`.
  explicit Messages(MPI_Comm group);
  ~Messages();

  int rank() const { return rank_; }
  int size() const { return size_; }

  void send(Requests& requests, Tensor data, int to, int tag) const;
  void receive(Requests& requests, Tensor data, int from, int tag) const;

private:
  CommHandle comm_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace gpt
