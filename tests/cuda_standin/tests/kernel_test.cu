#include "cuda_test.hpp"

#include <numeric>

namespace gpt {
namespace {

using standin::Order;
using test::cuda;
using test::DeviceArray;
using test::launch;
using test::Stream;

__constant__ int shift[2];

__global__ void number_threads(int* out) {
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned size = blockDim.x * blockDim.y * blockDim.z;
  out[block * size + thread] += int(block * 1000 + thread) + shift[0];
}

__global__ void transpose(const float* in, float* out) {
  __shared__ float tile[8][9];
  tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 8 + threadIdx.x];
  __syncthreads();
  out[threadIdx.y * 8 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}

template <class Reduce>
__global__ void reduce_warps(float* values, Reduce reduce) {
  float value = values[blockIdx.x * blockDim.x + threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2)
    value = reduce(value, __shfl_xor_sync(0xffffffffu, value, offset));
  values[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};

__global__ void shuffle_all(int* out) {
  const int lane = int(threadIdx.x);
  out[lane] = __shfl_sync(0xffffffffu, lane, 5);
  out[32 + lane] = __shfl_down_sync(0xffffffffu, lane, 3);
  out[64 + lane] = __shfl_up_sync(0xffffffffu, lane, 3);
  out[96 + lane] = __shfl_xor_sync(0xffffffffu, lane, 1);
  out[128 + lane] = __shfl_sync(0xffffffffu, lane, 1, 8);
  out[160 + lane] = int(__ballot_sync(0xffffffffu, lane % 4 == 0));
  out[192 + lane] = __any_sync(0xffffffffu, lane == 9) * 2 + __all_sync(0xffffffffu, lane < 31);
}

__global__ void vote(int* out) {
  out[threadIdx.x] = __syncthreads_count(threadIdx.x % 3 == 0) * 4 + __syncthreads_or(threadIdx.x == 7) * 2 +
                     __syncthreads_and(threadIdx.x < 99);
}

__global__ void count_up(float* sum, unsigned* largest) {
  atomicAdd(sum, 0.5f);
  atomicMax(largest, blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void sum_in_shared(const float* in, float* out, int* uninitialised) {
  auto* shared = static_cast<float*>(standin::dynamic_shared());
  if (threadIdx.x == 0) *uninitialised += std::isnan(shared[blockDim.x]);
  shared[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = shared[0];
}

__global__ void last_block(int* trace) {
  if (threadIdx.x == 0) trace[atomicAdd(&trace[gridDim.x], 1)] = int(blockIdx.x);
}

/// Runs `check` with every order of threads and blocks.
template <class Check>
void in_every_order(Check check) {
  const test::KeptSettings kept;
  for (const Order order : {Order::forward, Order::reverse, Order::shuffle}) {
    CAPTURE(int(order));
    standin::settings().order = order;
    check();
  }
}

}  // namespace

TEST_CASE("every thread of a grid runs once, with its own place") {
  in_every_order([] {
    const Stream stream;
    const dim3 blocks(3, 2, 2), threads(5, 7, 3);
    const DeviceArray<int> out(std::vector<int>(12 * 105, 0));
    shift[0] = 7;
    cuda(launch(number_threads, blocks, threads, 0, stream, out.get()));
    stream.synchronize();
    const std::vector<int> got = out.host();
    bool right = true;
    for (int i = 0; i < 12 * 105; ++i) right = right && got[size_t(i)] == i / 105 * 1000 + i % 105 + 7;
    CHECK(right);
  });
}

TEST_CASE("a barrier separates writes and reads of shared memory") {
  in_every_order([] {
    const Stream stream;
    std::vector<float> values(64);
    std::iota(values.begin(), values.end(), 0.0f);
    const DeviceArray<float> in(values), out(64);
    cuda(launch(transpose, 1, dim3(8, 8), 0, stream, in.get(), out.get()));
    stream.synchronize();
    const std::vector<float> got = out.host();
    for (size_t i = 0; i < 64; ++i) CHECK(got[i] == float(i % 8 * 8 + i / 8));
  });
}

TEST_CASE("a butterfly of shuffles sums each warp, whatever the order") {
  in_every_order([] {
    const Stream stream;
    const DeviceArray<float> values(std::vector<float>(3 * 96, 0.5f));
    cuda(launch(reduce_warps<Add>, 3, 96, 0, stream, values.get(), Add{}));
    stream.synchronize();
    CHECK(values.host() == std::vector<float>(3 * 96, 16.0f));
  });
}

TEST_CASE("shuffles and votes read the lanes that CUDA says") {
  in_every_order([] {
    const Stream stream;
    const DeviceArray<int> out(224);
    cuda(launch(shuffle_all, 1, 32, 0, stream, out.get()));
    stream.synchronize();
    const std::vector<int> got = out.host();
    for (int lane = 0; lane < 32; ++lane) {
      const auto at = [&](int row) { return got[size_t(row * 32 + lane)]; };
      CHECK(at(0) == 5);
      CHECK(at(1) == (lane + 3 < 32 ? lane + 3 : lane));
      CHECK(at(2) == (lane >= 3 ? lane - 3 : lane));
      CHECK(at(3) == (lane ^ 1));
      CHECK(at(4) == lane / 8 * 8 + 1);
      CHECK(at(5) == 0x11111111);
      CHECK(at(6) == 2);
    }
  });
}

TEST_CASE("barriers count votes of the whole block") {
  in_every_order([] {
    const Stream stream;
    const DeviceArray<int> out(100);
    cuda(launch(vote, 1, 100, 0, stream, out.get()));
    stream.synchronize();
    CHECK(out.host() == std::vector<int>(100, 34 * 4 + 2));
  });
}

TEST_CASE("atomic operations lose nothing") {
  in_every_order([] {
    const Stream stream;
    const DeviceArray<float> sum(std::vector<float>{0});
    const DeviceArray<unsigned> largest(std::vector<unsigned>{0});
    cuda(launch(count_up, 7, 96, 0, stream, sum.get(), largest.get()));
    stream.synchronize();
    CHECK(sum.host()[0] == 336.0f);
    CHECK(largest.host()[0] == 671u);
  });
}

TEST_CASE("dynamic shared memory belongs to a block, and is NaN when it begins") {
  in_every_order([] {
    const Stream stream;
    const DeviceArray<float> in(std::vector<float>(4 * 64, 0.25f)), out(4);
    const DeviceArray<int> uninitialised(std::vector<int>{0});
    cuda(launch(sum_in_shared, 4, 64, 65 * sizeof(float), stream, in.get(), out.get(), uninitialised.get()));
    stream.synchronize();
    CHECK(out.host() == std::vector<float>(4, 16.0f));
    CHECK(uninitialised.host()[0] == 4);
  });
}

TEST_CASE("the order of blocks is the one that was asked for") {
  const test::KeptSettings kept;
  const auto trace = [](Order order) {
    standin::settings().order = order;
    const Stream stream;
    const DeviceArray<int> out(std::vector<int>(33, 0));
    cuda(launch(last_block, 32, 4, 0, stream, out.get()));
    stream.synchronize();
    std::vector<int> blocks = out.host();
    blocks.pop_back();
    return blocks;
  };
  std::vector<int> ascending(32);
  std::iota(ascending.begin(), ascending.end(), 0);
  CHECK(trace(Order::forward) == ascending);
  CHECK(trace(Order::reverse) == std::vector<int>(ascending.rbegin(), ascending.rend()));
  std::vector<int> shuffled = trace(Order::shuffle);
  CHECK(shuffled != ascending);
  std::sort(shuffled.begin(), shuffled.end());
  CHECK(shuffled == ascending);
}

TEST_CASE("launches that no device can run are refused") {
  const Stream stream;
  const DeviceArray<float> values(std::vector<float>(32, 0.0f));
  const auto run = [&](dim3 blocks, dim3 threads, size_t shared) {
    const cudaError_t error = launch(reduce_warps<Add>, blocks, threads, shared, stream, values.get(), Add{});
    CHECK(cudaGetLastError() == error);
    return error;
  };
  CHECK(run(1, 1025, 0) == cudaErrorInvalidConfiguration);
  CHECK(run(1, dim3(1, 1, 65), 0) == cudaErrorInvalidConfiguration);
  CHECK(run(0, 32, 0) == cudaErrorInvalidConfiguration);
  CHECK(run(dim3(1, 65536), 32, 0) == cudaErrorInvalidConfiguration);
  CHECK(run(1, 32, 48 * 1024 + 1) == cudaErrorInvalidValue);
  cuda(cudaFuncSetAttribute(reduce_warps<Add>, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 * 1024));
  CHECK(run(1, 32, 64 * 1024) == cudaSuccess);
  CHECK(cudaFuncSetAttribute(reduce_warps<Add>, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 * 1024) ==
        cudaErrorInvalidValue);
  cudaFuncAttributes attributes;
  cuda(cudaFuncGetAttributes(&attributes, reduce_warps<Add>));
  CHECK(attributes.maxDynamicSharedSizeBytes == 64 * 1024);
  int blocks = 0;
  cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reduce_warps<Add>, 256, 50 * 1024));
  CHECK(blocks == 4);
  cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reduce_warps<Add>, 256, 0));
  CHECK(blocks == 8);
  cudaLaunchAttribute attribute{};
  cudaLaunchConfig_t config{};
  config.gridDim = config.blockDim = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, reduce_warps<Add>, values.get(), Add{}) == cudaErrorNotSupported);
  cudaGetLastError();
}

}  // namespace gpt
