#include "cuda_test.hpp"

#include <atomic>
#include <chrono>
#include <cmath>

namespace gpt {
namespace {

using standin::StreamMode;
using test::cuda;
using test::DeviceArray;
using test::Event;
using test::launch;
using test::Stream;

__global__ void set(float* out, float value) { *out = value; }
__global__ void copy(float* out, const float* in) { *out = *in; }

void in_mode(StreamMode mode) { standin::settings().streams = mode; }

float only(const DeviceArray<float>& array) { return array.host()[0]; }

/// One stream writes, another reads without waiting, or with. What the reader got.
float read_behind_writer(bool waits) {
  const Stream writer, reader;
  const Event written;
  const DeviceArray<float> source(std::vector<float>{0}), target(std::vector<float>{0});
  cuda(launch(set, 1, 1, 0, writer, source.get(), 1.0f));
  cuda(cudaEventRecord(written, writer));
  if (waits) cuda(cudaStreamWaitEvent(reader, written));
  cuda(launch(copy, 1, 1, 0, reader, target.get(), source.get()));
  reader.synchronize();
  writer.synchronize();
  return only(target);
}

/// One stream reads, another overwrites without waiting, or with. What the reader got.
float read_before_writer(bool waits) {
  const Stream writer, reader;
  const Event read;
  const DeviceArray<float> source(std::vector<float>{1}), target(std::vector<float>{0});
  cuda(launch(copy, 1, 1, 0, reader, target.get(), source.get()));
  cuda(cudaEventRecord(read, reader));
  if (waits) cuda(cudaStreamWaitEvent(writer, read));
  cuda(launch(set, 1, 1, 0, writer, source.get(), 2.0f));
  writer.synchronize();
  reader.synchronize();
  return only(target);
}

}  // namespace

TEST_CASE(
    "a missing wait for an event shows when streams defer, and no wrong result comes of a right program") {
  const test::KeptSettings kept;
  in_mode(StreamMode::deferred);
  CHECK(read_behind_writer(false) == 0.0f);
  CHECK(read_before_writer(false) == 2.0f);
  for (const StreamMode mode : {StreamMode::deferred, StreamMode::eager, StreamMode::racing})
    for (int repetition = 0; repetition < 10; ++repetition) {
      in_mode(mode);
      CHECK(read_behind_writer(true) == 1.0f);
      CHECK(read_before_writer(true) == 1.0f);
    }
}

TEST_CASE("racing streams take both orders of work that nothing orders") {
  const test::KeptSettings kept;
  in_mode(StreamMode::racing);
  int stale = 0, fresh = 0;
  for (int repetition = 0; repetition < 100; ++repetition)
    ++(read_behind_writer(false) == 0.0f ? stale : fresh);
  CHECK(stale > 0);
  CHECK(fresh > 0);
}

TEST_CASE("a host that reads without waiting sees what was there before") {
  const test::KeptSettings kept;
  in_mode(StreamMode::deferred);
  const Stream stream;
  const DeviceArray<float> value(std::vector<float>{3});
  float* pinned = nullptr;
  cuda(cudaMallocHost(&pinned, sizeof(float)));
  CHECK(std::isnan(*pinned));
  cuda(cudaMemcpyAsync(pinned, value.get(), sizeof(float), cudaMemcpyDeviceToHost, stream));
  CHECK(std::isnan(*pinned));
  stream.synchronize();
  CHECK(*pinned == 3.0f);
  cuda(cudaFreeHost(pinned));
}

TEST_CASE("the default stream and blocking streams wait for each other, others do not") {
  const test::KeptSettings kept;
  in_mode(StreamMode::deferred);
  cudaStream_t blocking = nullptr;
  cuda(cudaStreamCreate(&blocking));
  const Stream free;
  const DeviceArray<float> a(std::vector<float>{0}), b(std::vector<float>{0}), out(std::vector<float>{0});
  cuda(launch(set, 1, 1, 0, blocking, a.get(), 1.0f));
  cuda(launch(set, 1, 1, 0, free, b.get(), 1.0f));
  CHECK(only(a) == 1.0f);
  CHECK(only(b) == 0.0f);
  cuda(cudaMemsetAsync(a.get(), 0, sizeof(float)));
  cuda(launch(copy, 1, 1, 0, blocking, out.get(), a.get()));
  cuda(cudaStreamSynchronize(blocking));
  CHECK(only(out) == 0.0f);
  cuda(cudaDeviceSynchronize());
  CHECK(only(b) == 1.0f);
  cuda(cudaStreamDestroy(blocking));
}

TEST_CASE("an event stands for what its stream had when it was recorded") {
  const test::KeptSettings kept;
  in_mode(StreamMode::deferred);
  const Stream stream;
  const Event early, late, unrecorded;
  const DeviceArray<float> value(std::vector<float>{0});
  cuda(launch(set, 1, 1, 0, stream, value.get(), 1.0f));
  cuda(cudaEventRecord(early, stream));
  cuda(launch(set, 1, 1, 0, stream, value.get(), 2.0f));
  cuda(cudaEventRecord(late, stream));
  CHECK(cudaEventQuery(unrecorded) == cudaSuccess);
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, early, late) == cudaErrorNotReady);
  cuda(cudaEventSynchronize(early));
  CHECK(only(value) == 1.0f);
  CHECK(cudaEventQuery(late) == cudaErrorNotReady);
  cuda(cudaEventSynchronize(late));
  CHECK(only(value) == 2.0f);
  cuda(cudaEventElapsedTime(&milliseconds, early, late));
  CHECK(milliseconds >= 0.0f);
  CHECK(cudaEventElapsedTime(&milliseconds, unrecorded, late) == cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_CASE("asking again and again drives a stream on") {
  const test::KeptSettings kept;
  in_mode(StreamMode::deferred);
  const Stream first, second;
  const Event done;
  const DeviceArray<float> value(std::vector<float>{0});
  for (int i = 0; i < 3; ++i) cuda(launch(set, 1, 1, 0, first, value.get(), float(i)));
  cuda(cudaEventRecord(done, first));
  cuda(cudaStreamWaitEvent(second, done));
  int queries = 0;
  while (cudaStreamQuery(second) == cudaErrorNotReady && queries < 100) ++queries;
  CHECK(queries > 1);
  CHECK(queries < 100);
  CHECK(only(value) == 2.0f);
}

TEST_CASE("functions of the host run in their stream's order and may call back") {
  const test::KeptSettings kept;
  in_mode(StreamMode::deferred);
  static std::atomic<int> calls;
  calls = 0;
  const Stream stream;
  const DeviceArray<float> value(std::vector<float>{0});
  cuda(launch(set, 1, 1, 0, stream, value.get(), 1.0f));
  cuda(cudaLaunchHostFunc(
      stream,
      [](void*) {
        int device = -1;
        cudaGetDevice(&device);
        ++calls;
      },
      nullptr));
  CHECK(calls == 0);
  stream.synchronize();
  CHECK(calls == 1);
}

TEST_CASE("work that a host function announces comes by itself") {
  static std::atomic<bool> announced;
  announced = false;
  const Stream stream;
  cuda(cudaLaunchHostFunc(
      stream, [](void*) { announced = true; }, nullptr));
  const auto start = std::chrono::steady_clock::now();
  while (!announced && std::chrono::steady_clock::now() - start < std::chrono::seconds(20)) {
  }
  CHECK(announced);
}

TEST_CASE("a destroyed stream still runs what it has") {
  const test::KeptSettings kept;
  in_mode(StreamMode::deferred);
  const DeviceArray<float> value(std::vector<float>{0});
  {
    const Stream stream;
    cuda(launch(set, 1, 1, 0, stream, value.get(), 1.0f));
  }
  CHECK(only(value) == 0.0f);
  cuda(cudaDeviceSynchronize());
  CHECK(only(value) == 1.0f);
}

TEST_CASE("streams keep their flags and priorities") {
  int least = 1, greatest = 1, priority = 1;
  cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(greatest < least);
  cudaStream_t stream = nullptr;
  cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, least));
  cuda(cudaStreamGetPriority(stream, &priority));
  CHECK(priority == least);
  unsigned flags = 0;
  cuda(cudaStreamGetFlags(stream, &flags));
  CHECK(flags == cudaStreamNonBlocking);
  cuda(cudaStreamDestroy(stream));
}

TEST_CASE("memory is given and taken back in the order of a stream") {
  const test::KeptSettings kept;
  in_mode(StreamMode::deferred);
  const Stream stream;
  float* memory = nullptr;
  cuda(cudaMallocAsync(&memory, 16, stream));
  cuda(launch(set, 1, 1, 0, stream, memory, 1.0f));
  cuda(cudaFreeAsync(memory, stream));
  cudaPointerAttributes attributes;
  cuda(cudaPointerGetAttributes(&attributes, memory));
  CHECK(attributes.type == cudaMemoryTypeDevice);
  stream.synchronize();
  size_t free = 0, total = 0;
  cuda(cudaMemGetInfo(&free, &total));
  CHECK(free == total);
}

TEST_CASE("copies of rows keep what lies between") {
  const Stream stream;
  const DeviceArray<float> target(std::vector<float>(6, 9.0f));
  const std::vector<float> source{1, 2, 3, 4, 5, 6};
  cuda(cudaMemcpy2DAsync(target.get(), 3 * sizeof(float), source.data(), 3 * sizeof(float), 2 * sizeof(float),
                         2, cudaMemcpyHostToDevice, stream));
  stream.synchronize();
  CHECK(target.host() == std::vector<float>{1, 2, 9, 4, 5, 9});
}

}  // namespace gpt
