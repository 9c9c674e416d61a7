#include "operation.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace standin {
namespace {

/// Operations that a stream was given together: they run at the same time, but for collectives of one
/// communicator.
class Group {
public:
  void add(std::unique_ptr<Operation> operation) { waiting_.push_back(std::move(operation)); }

  bool progress() {
    std::vector<const ncclComm*> in_collective;
    std::erase_if(waiting_, [&](const auto& operation) {
      const ncclComm& comm = operation->comm();
      if (comm.aborted) return true;
      if (operation->is_collective()) {
        if (std::find(in_collective.begin(), in_collective.end(), &comm) != in_collective.end()) return false;
      }
      const bool done = operation->progress();
      if (!done && operation->is_collective()) in_collective.push_back(&comm);
      return done;
    });
    return waiting_.empty();
  }

  std::string describe() const { return waiting_.empty() ? "nothing" : waiting_.front()->describe(); }

  std::vector<ncclComm*> comms() const {
    std::vector<ncclComm*> result;
    for (const auto& operation : waiting_) result.push_back(&operation->comm());
    return result;
  }

private:
  std::vector<std::unique_ptr<Operation>> waiting_;
};

struct Issued {
  std::shared_ptr<CUstream_st> stream;
  std::shared_ptr<Group> group;
};
thread_local std::vector<Issued> issued;
thread_local int depth = 0;

Group& group_of(CUstream_st& stream) {
  for (const Issued& each : issued)
    if (each.stream.get() == &stream) return *each.group;
  issued.push_back({stream.shared_from_this(), std::make_shared<Group>()});
  return *issued.back().group;
}

/// Operations of a communicator run in the order in which they were issued, whatever their streams.
void give_to_stream(const Issued& work, Call& call) {
  CUstream_st& stream = *work.stream;
  const auto comms = work.group->comms();
  for (const ncclComm* comm : comms)
    if (comm->last_stream && comm->last_stream != work.stream)
      enqueue(stream, Wait{comm->last_stream, comm->last_position}, call);
  enqueue(stream,
          Exchange{[group = work.group] { return group->progress(); },
                   [group = work.group] { return group->describe(); }},
          call);
  for (ncclComm* comm : comms) {
    comm->last_stream = work.stream;
    comm->last_position = stream.end();
  }
}

void give_to_streams(Call& call) {
  for (const Issued& work : std::exchange(issued, {})) give_to_stream(work, call);
}

}  // namespace

void issue(std::unique_ptr<Operation> operation, CUstream_st& stream, Call& call) {
  group_of(stream).add(std::move(operation));
  if (depth == 0) give_to_streams(call);
}

}  // namespace standin

using namespace standin;

extern "C" {
ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--depth > 0) return ncclSuccess;
  Call call;
  give_to_streams(call);
  return ncclSuccess;
}
}
