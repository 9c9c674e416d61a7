#include "device.hpp"
#include "failure.hpp"
#include "stream.hpp"

#include <cuda_runtime.h>

using namespace standin;

namespace {

bool complete(const CUevent_st& event) { return !event.stream || event.stream->done >= event.position; }

}  // namespace

extern "C" {
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  if (device_count() == 0) return note(cudaErrorNoDevice);
  *event = new CUevent_st;
  (*event)->flags = flags;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (!event) return note(cudaErrorInvalidResourceHandle);
  const Call call;
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!event) return note(cudaErrorInvalidResourceHandle);
  Call call;
  CUstream_st& target = stream_of(stream);
  event->reached = std::make_shared<std::optional<Clock::time_point>>();
  enqueue(target, Task{[reached = event->reached] { *reached = Clock::now(); }}, call);
  event->stream = target.shared_from_this();
  event->position = target.end();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!event) return note(cudaErrorInvalidResourceHandle);
  Call call;
  if (complete(*event)) return cudaSuccess;
  nudge(*event->stream, call);
  return cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!event) return note(cudaErrorInvalidResourceHandle);
  Call call;
  if (event->stream) drain(*std::shared_ptr(event->stream), event->position, call);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (!start || !end) return note(cudaErrorInvalidResourceHandle);
  const Call call;
  for (const cudaEvent_t event : {start, end})
    if (!event->stream || (event->flags & cudaEventDisableTiming))
      return note(cudaErrorInvalidResourceHandle);
  if (!complete(*start) || !complete(*end)) return note(cudaErrorNotReady);
  *ms = std::chrono::duration<float, std::milli>(**end->reached - **start->reached).count();
  return cudaSuccess;
}
}
