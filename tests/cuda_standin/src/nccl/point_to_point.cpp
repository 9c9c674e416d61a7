#include "../failure.hpp"
#include "element.hpp"
#include "operation.hpp"

#include <climits>
#include <cstring>
#include <fmt/format.h>
#include <vector>

namespace standin {
namespace {

/// In front of each message.
struct Head {
  uint64_t count;
  ncclDataType_t type;
};

class Send : public Operation {
public:
  Send(ncclComm& comm, const void* data, const Head& head, int peer)
      : Operation(comm), data_(data), head_(head), peer_(peer) {}

  bool is_collective() const override { return false; }
  std::string describe() const override {
    return fmt::format("rank {} to receive {} {} of rank {}", peer_, head_.count, type_name(head_.type),
                       comm().rank);
  }

  bool progress() override {
    if (message_.empty()) start();
    int flag = 0;
    MPI_Test(&request_, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  }

private:
  /// Synchronous: as with NCCL, a send is not done before it is received.
  void start() {
    const size_t bytes = head_.count * element_bytes(head_.type);
    message_.resize(sizeof head_ + bytes);
    std::memcpy(message_.data(), &head_, sizeof head_);
    if (bytes > 0) std::memcpy(message_.data() + sizeof head_, data_, bytes);
    MPI_Issend(message_.data(), int(message_.size()), MPI_BYTE, peer_, kPointToPointTag, comm().mpi,
               &request_);
  }

  const void* data_;
  Head head_;
  int peer_;
  std::vector<char> message_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class Receive : public Operation {
public:
  Receive(ncclComm& comm, void* data, const Head& head, int peer)
      : Operation(comm), data_(data), head_(head), peer_(peer) {}

  bool is_collective() const override { return false; }
  std::string describe() const override {
    return fmt::format("rank {} to send {} {} to rank {}", peer_, head_.count, type_name(head_.type),
                       comm().rank);
  }

  bool progress() override {
    int flag = 0;
    MPI_Message message;
    MPI_Status status;
    MPI_Improbe(peer_, kPointToPointTag, comm().mpi, &flag, &message, &status);
    if (!flag) return false;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    std::vector<char> received(static_cast<size_t>(bytes));
    MPI_Mrecv(received.data(), bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE);
    Head sent;
    std::memcpy(&sent, received.data(), sizeof sent);
    if (sent.count != head_.count || sent.type != head_.type)
      fail("NCCL: rank {} sends {} {}, and rank {} expects {} {}", peer_, sent.count, type_name(sent.type),
           comm().rank, head_.count, type_name(head_.type));
    if (head_.count > 0) std::memcpy(data_, received.data() + sizeof sent, received.size() - sizeof sent);
    return true;
  }

private:
  void* data_;
  Head head_;
  int peer_;
};

void check_length(size_t count, ncclDataType_t type) {
  if (count * element_bytes(type) > INT_MAX - sizeof(Head))
    fail("NCCL: messages of {} {} are too long for the stand-in", count, type_name(type));
}

}  // namespace

std::unique_ptr<Operation> new_send(ncclComm& comm, const void* data, size_t count, ncclDataType_t type,
                                    int peer) {
  check_length(count, type);
  return std::make_unique<Send>(comm, data, Head{count, type}, peer);
}
std::unique_ptr<Operation> new_receive(ncclComm& comm, void* data, size_t count, ncclDataType_t type,
                                       int peer) {
  check_length(count, type);
  return std::make_unique<Receive>(comm, data, Head{count, type}, peer);
}

}  // namespace standin
