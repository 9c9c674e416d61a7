#pragma once

#include "base/mpi.hpp"
#include "device/tensor.hpp"

#include <cstdint>
#include <vector>

namespace gpt {

/// Messages under way. Their memory must stay until all are done.
class Requests {
public:
  MPI_Request& add() { return requests_.emplace_back(MPI_REQUEST_NULL); }

  /// Whether all are done; lets MPI move them on. @throws Error(rank_failed) if one failed
  bool are_done();

private:
  std::vector<MPI_Request> requests_;
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
