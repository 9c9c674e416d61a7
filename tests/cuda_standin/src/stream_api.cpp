#include "device.hpp"
#include "stream.hpp"

#include <cuda_runtime.h>

using namespace standin;

extern "C" {
cudaError_t cudaStreamCreate(cudaStream_t* pStream) {
  return cudaStreamCreateWithPriority(pStream, cudaStreamDefault, 0);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  return cudaStreamCreateWithPriority(pStream, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags, int priority) {
  if (device_count() == 0) return note(cudaErrorNoDevice);
  if (!pStream || flags > cudaStreamNonBlocking) return note(cudaErrorInvalidValue);
  const Call call;
  *pStream = new_stream(current_device(), flags, priority).get();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (!stream) return note(cudaErrorInvalidResourceHandle);
  const Call call;
  forget_stream(stream_of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int* flags) {
  const Call call;
  *flags = stream_of(hStream).flags;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int* priority) {
  const Call call;
  *priority = stream_of(hStream).priority;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (device_count() == 0) return note(cudaErrorNoDevice);
  Call call;
  CUstream_st& target = stream_of(stream);
  drain(target, call);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (device_count() == 0) return note(cudaErrorNoDevice);
  Call call;
  CUstream_st& target = stream_of(stream);
  if (target.queue.empty()) return cudaSuccess;
  nudge(target, call);
  return cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  if (!event) return note(cudaErrorInvalidResourceHandle);
  Call call;
  CUstream_st& target = stream_of(stream);
  if (event->stream && event->stream.get() != &target)
    enqueue(target, Wait{event->stream, event->position}, call);
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  if (!fn) return note(cudaErrorInvalidValue);
  Call call;
  enqueue(stream_of(stream), HostTask{[=] { fn(userData); }}, call);
  return cudaSuccess;
}
}
