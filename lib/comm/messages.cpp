#include "comm/messages.hpp"

#include "base/contracts.hpp"

#include <climits>
#include <exception>

namespace gpt {
namespace {

int byte_count(const Tensor& data) {
  ensures(data.bytes() <= INT_MAX);
  return static_cast<int>(data.bytes());
}

}  // namespace

bool Requests::are_done() {
  int done = 0;
  check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE));
  return done != 0;
}

Messages::Messages(MPI_Comm group) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(group, &copy));
  comm_.reset(copy);
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
  check_mpi(MPI_Comm_rank(copy, &rank_));
  check_mpi(MPI_Comm_size(copy, &size_));
}

Messages::~Messages() {
  // Freeing is collective: while an exception passes, the other ranks may never come to it.
  if (std::uncaught_exceptions() > 0) comm_.release();
}

void Messages::send(Requests& requests, Tensor data, int to, int tag) const {
  if (data.size() == 0) return;
  check_mpi(MPI_Isend(data.raw(), byte_count(data), MPI_BYTE, to, tag, comm_.get(), &requests.add()));
}

void Messages::receive(Requests& requests, Tensor data, int from, int tag) const {
  if (data.size() == 0) return;
  check_mpi(MPI_Irecv(data.raw(), byte_count(data), MPI_BYTE, from, tag, comm_.get(), &requests.add()));
}

}  // namespace gpt
