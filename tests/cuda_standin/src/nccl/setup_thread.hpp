#pragma once

#include <functional>
#include <nccl.h>

namespace standin {

/// Runs something in the thread that makes and ends communicators, after all that it was given before. The
/// ranks must give it in the same order. `job` returns the new state of the communicator; what it waits for
/// it asks `is_over`.
void run_in_setup_thread(ncclComm* comm, std::function<ncclResult_t()> job);

/// Sleeps until `done` holds.
/// @returns false if the communicator was aborted before
bool wait_for(const ncclComm& comm, const std::function<bool()>& done);

/// For blocking communicators: waits for the end of what it is in progress with. Gives up after the time
/// limit.
ncclResult_t settle(const ncclComm& comm, const char* action);

}  // namespace standin
