#pragma once

#include "settings.hpp"

#include <cuda_runtime.h>
#include <doctest/doctest.h>
#include <utility>
#include <vector>

namespace gpt::test {

/// Fails the case unless the call succeeds.
inline void cuda(cudaError_t error) {
  CAPTURE(cudaGetErrorName(error));
  REQUIRE(error == cudaSuccess);
}

/// A stream that the default stream does not order.
class Stream {
public:
  Stream() { cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  operator cudaStream_t() const { return stream_; }
  void synchronize() const { cuda(cudaStreamSynchronize(stream_)); }

private:
  cudaStream_t stream_ = nullptr;
};

class Event {
public:
  Event() { cuda(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  operator cudaEvent_t() const { return event_; }

private:
  cudaEvent_t event_ = nullptr;
};

/// Elements in device memory; copied with the host in step.
template <class T>
class DeviceArray {
public:
  explicit DeviceArray(size_t count) : count_(count) { cuda(cudaMalloc(&data_, count * sizeof(T))); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    cuda(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* get() const { return data_; }
  std::vector<T> host() const {
    std::vector<T> values(count_);
    cuda(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

private:
  T* data_ = nullptr;
  size_t count_;
};

template <class... Expected, class... Actual>
cudaError_t launch(void (*kernel)(Expected...), dim3 blocks, dim3 threads, size_t shared, cudaStream_t stream,
                   Actual&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Actual>(arguments)...);
}

/// Puts the stand-in's settings back.
class KeptSettings {
public:
  KeptSettings() : kept_(standin::settings()) {}
  ~KeptSettings() { standin::settings() = kept_; }
  KeptSettings(const KeptSettings&) = delete;
  KeptSettings& operator=(const KeptSettings&) = delete;

private:
  standin::Settings kept_;
};

}  // namespace gpt::test
