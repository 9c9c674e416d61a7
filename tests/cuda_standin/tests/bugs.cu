// bugs NAME: a program with one mistake. Prints "finished" when nothing stopped it.
#include <cstdio>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <utility>

namespace {

template <class... Expected, class... Actual>
void launch(void (*kernel)(Expected...), dim3 blocks, dim3 threads, size_t shared, Actual&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared;
  cudaLaunchKernelEx(&config, kernel, std::forward<Actual>(arguments)...);
}

float* numbers(size_t count) {
  float* memory = nullptr;
  cudaMalloc(&memory, count * sizeof(float));
  cudaMemset(memory, 0, count * sizeof(float));
  return memory;
}

__global__ void fill(float* out, int count) { out[threadIdx.x] = float(count); }

__global__ void reverse_without_barrier(float* out) {
  __shared__ float values[64];
  values[threadIdx.x] = float(threadIdx.x);
  out[threadIdx.x] = values[63 - threadIdx.x];
}
/// Wrong in all but the last of the elements, or a message: which, depends on the order of threads.
void missing_barrier() {
  float* out = numbers(64);
  launch(reverse_without_barrier, 1, 64, 0, out);
  float host[64];
  cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 64; ++i)
    if (host[i] != float(63 - i)) std::puts("wrong result");
}

__global__ void half_at_barrier(float* out) {
  if (threadIdx.x < 40) __syncthreads();
  out[threadIdx.x] = 0;
}
void divergent_barrier() { launch(half_at_barrier, 1, 64, 0, numbers(64)); }

__global__ void at_two_barriers(float* out) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = 0;
}
void different_barriers() { launch(at_two_barriers, 1, 64, 0, numbers(64)); }

__global__ void barrier_after_return(float* out) {
  if (threadIdx.x == 63) return;
  __syncthreads();
  out[threadIdx.x] = 0;
}
void return_before_barrier() { launch(barrier_after_return, 1, 64, 0, numbers(64)); }

__global__ void half_warp_shuffles(float* out) {
  float value = 1;
  if (threadIdx.x < 16) value = __shfl_xor_sync(0xffffffffu, value, 1);
  out[threadIdx.x] = value;
}
void divergent_shuffle() { launch(half_warp_shuffles, 1, 32, 0, numbers(32)); }

__global__ void wrong_mask(float* out) {
  out[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, float(threadIdx.x), 1);
}
void lane_outside_mask() { launch(wrong_mask, 1, 32, 0, numbers(32)); }

__global__ void read_outside_mask(float* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0x0000ffffu, float(threadIdx.x), 20);
}
void source_outside_mask() { launch(read_outside_mask, 1, 32, 0, numbers(32)); }

__global__ void different_operations(float* out) {
  if (threadIdx.x < 16)
    out[threadIdx.x] = __shfl_sync(0xffffffffu, 1.0f, 0);
  else
    __syncwarp();
}
void different_warp_operations() { launch(different_operations, 1, 32, 0, numbers(32)); }

__global__ void spin(volatile float* flag) {
  while (*flag == 0) {
  }
}
void waits_for_another_block() { launch(spin, 1, 1, 0, static_cast<volatile float*>(numbers(1))); }

__global__ void write_at(float* out, int index) { out[index] = 1; }
void global_out_of_bounds() { launch(write_at, 1, 1, 0, numbers(64), 64); }

template <int kCount>
__global__ void write_shared(float* out, int index) {
  __shared__ float values[kCount];
  float* start = values;
  start[index] = 1;
  out[0] = start[index];
}
void static_shared_out_of_bounds() { launch(write_shared<8>, 1, 1, 0, numbers(1), 8); }

__global__ void write_dynamic_shared(float* out, int index) {
  auto* values = static_cast<float*>(standin::dynamic_shared());
  values[index] = 1;
  out[0] = values[index];
}
void dynamic_shared_out_of_bounds() { launch(write_dynamic_shared, 1, 1, 256, numbers(1), 64); }

__global__ void load_vector(float4* out, const float* in) { *out = *reinterpret_cast<const float4*>(in); }
void misaligned_vector() {
  float* in = numbers(64);
  launch(load_vector, 1, 1, 0, reinterpret_cast<float4*>(in), in + 5);
}

void host_reads_device() {
  const float* device = numbers(4);
  cudaDeviceSynchronize();
  std::printf("%f\n", double(device[0]));
}

void host_pointer_in_kernel() {
  static float host[64];
  launch(fill, 1, 64, 0, host, 1);
}

void use_after_free() {
  float* memory = numbers(64);
  cudaFree(memory);
  launch(fill, 1, 64, 0, memory, 1);
}

void freed_while_in_use() {
  cudaStream_t first = nullptr, second = nullptr;
  cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  float* memory = numbers(64);
  cudaDeviceSynchronize();
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 64;
  config.stream = first;
  cudaLaunchKernelEx(&config, fill, memory, 1);
  cudaFreeAsync(memory, second);
  cudaStreamSynchronize(second);
  cudaStreamSynchronize(first);
}

void wrong_direction() {
  float host[4] = {};
  cudaMemcpy(host, numbers(4), sizeof host, cudaMemcpyHostToDevice);
}

void copy_out_of_bounds() {
  float host[8] = {};
  cudaMemcpy(host, numbers(4), sizeof host, cudaMemcpyDeviceToHost);
}

void destroyed_stream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  cudaStreamDestroy(stream);
  cudaStreamSynchronize(stream);
}

void foreign_device() {
  cudaSetDevice(1);
  float* memory = numbers(64);
  cudaSetDevice(0);
  launch(fill, 1, 64, 0, memory, 1);
}

void uninitialised_memory() {
  float* memory = nullptr;
  cudaMalloc(&memory, sizeof(float));
  float host = 0;
  cudaMemcpy(&host, memory, sizeof host, cudaMemcpyDeviceToHost);
  if (host != host) std::puts("wrong result");
}

void none() { launch(fill, 1, 64, 0, numbers(64), 1); }

constexpr std::pair<const char*, void (*)()> kBugs[] = {
    {"none", none},
    {"missing_barrier", missing_barrier},
    {"divergent_barrier", divergent_barrier},
    {"different_barriers", different_barriers},
    {"return_before_barrier", return_before_barrier},
    {"divergent_shuffle", divergent_shuffle},
    {"lane_outside_mask", lane_outside_mask},
    {"source_outside_mask", source_outside_mask},
    {"different_warp_operations", different_warp_operations},
    {"waits_for_another_block", waits_for_another_block},
    {"global_out_of_bounds", global_out_of_bounds},
    {"static_shared_out_of_bounds", static_shared_out_of_bounds},
    {"dynamic_shared_out_of_bounds", dynamic_shared_out_of_bounds},
    {"misaligned_vector", misaligned_vector},
    {"host_reads_device", host_reads_device},
    {"host_pointer_in_kernel", host_pointer_in_kernel},
    {"use_after_free", use_after_free},
    {"freed_while_in_use", freed_while_in_use},
    {"wrong_direction", wrong_direction},
    {"copy_out_of_bounds", copy_out_of_bounds},
    {"destroyed_stream", destroyed_stream},
    {"foreign_device", foreign_device},
    {"uninitialised_memory", uninitialised_memory},
};

}  // namespace

int main(int argc, char** argv) {
  for (const auto& [name, run] : kBugs)
    if (argc == 2 && std::strcmp(argv[1], name) == 0) {
      run();
      cudaDeviceSynchronize();
      std::puts("finished");
      return 0;
    }
  std::puts("unknown bug");
  return 2;
}
