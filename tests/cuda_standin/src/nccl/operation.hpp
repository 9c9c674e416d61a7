#pragma once

#include "../stream.hpp"
#include "communicator.hpp"

#include <memory>
#include <string>

namespace standin {

/// An operation of a communicator, driven by whoever runs its stream: it never waits.
class Operation {
public:
  explicit Operation(ncclComm& comm) : comm_(comm) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// @returns whether it is done
  virtual bool progress() = 0;
  virtual std::string describe() const = 0;
  /// Collectives of a communicator come one after the other.
  virtual bool is_collective() const = 0;

  ncclComm& comm() const { return comm_; }

private:
  ncclComm& comm_;
};

/// All ranks take part. The numbers of elements and where they lie are those of the call with these terms.
std::unique_ptr<Operation> new_collective(ncclComm& comm, const Terms& terms, const void* send,
                                          void* receive);

/// A message to or from one rank. The receiver checks that count and type are the same.
std::unique_ptr<Operation> new_send(ncclComm& comm, const void* data, size_t count, ncclDataType_t type,
                                    int peer);
std::unique_ptr<Operation> new_receive(ncclComm& comm, void* data, size_t count, ncclDataType_t type,
                                       int peer);

/// Gives an operation to a stream, or keeps it for the end of the group.
void issue(std::unique_ptr<Operation> operation, CUstream_st& stream, Call& call);

}  // namespace standin
