#include "cuda_test.hpp"
#include "failure.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cuda_bf16.h>
#include <mpi.h>
#include <nccl.h>
#include <stdexcept>
#include <string>
#include <thread>

namespace gpt {
namespace {

using test::cuda;
using test::DeviceArray;
using test::Event;
using test::Stream;

void nccl(ncclResult_t result) {
  CAPTURE(ncclGetErrorString(result));
  CAPTURE(ncclGetLastError(nullptr));
  REQUIRE(result == ncclSuccess);
}

int mpi_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
int mpi_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

ncclUniqueId common_id() {
  ncclUniqueId id{};
  if (mpi_rank() == 0) nccl(ncclGetUniqueId(&id));
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  return id;
}

/// All ranks, made while blocking.
class World {
public:
  World() { nccl(ncclCommInitRank(&comm_, mpi_size(), common_id(), mpi_rank())); }
  ~World() {
    if (comm_) ncclCommDestroy(comm_);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  operator ncclComm_t() const { return comm_; }
  void abort() {
    ncclCommAbort(comm_);
    comm_ = nullptr;
  }

private:
  ncclComm_t comm_ = nullptr;
};

/// Element `i` of rank `rank`: sums are exact in every type.
double value(int rank, size_t i) { return double((rank + 1) * int(i % 7)); }

template <class T>
std::vector<T> contribution(int rank, size_t count) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = T(value(rank, i));
  return values;
}
template <class T>
std::vector<T> total(size_t count) {
  std::vector<T> values(count, T(0));
  for (int rank = 0; rank < mpi_size(); ++rank)
    for (size_t i = 0; i < count; ++i) values[i] = T(values[i] + T(value(rank, i)));
  return values;
}
template <class T>
std::vector<T> part(const std::vector<T>& values, int rank, size_t count) {
  return {values.begin() + int64_t(size_t(rank) * count), values.begin() + int64_t(size_t(rank + 1) * count)};
}

template <class T>
constexpr ncclDataType_t kType = ncclFloat32;
template <>
constexpr ncclDataType_t kType<double> = ncclFloat64;
template <>
constexpr ncclDataType_t kType<int32_t> = ncclInt32;
template <>
constexpr ncclDataType_t kType<uint8_t> = ncclUint8;

constexpr size_t kCounts[] = {0, 1, 3, 1000, 4097};

/// Turns what the stand-in finds into an exception, which leaves the call that runs the stream.
class ThrowFailures {
public:
  ThrowFailures() {
    standin::set_failure_handler([](const std::string& problem) { throw std::runtime_error(problem); });
  }
  ~ThrowFailures() { standin::set_failure_handler(nullptr); }
  ThrowFailures(const ThrowFailures&) = delete;
  ThrowFailures& operator=(const ThrowFailures&) = delete;
};

/// What the stand-in says when `work` runs on every rank, with a communicator of its own.
template <class Work>
std::string complaint(Work work) {
  const ThrowFailures throws;
  World world;
  std::string text;
  const Stream stream;
  const DeviceArray<float> data(std::vector<float>(16, 0.0f));
  try {
    work(world, data.get(), stream);
    cudaStreamSynchronize(stream);
  } catch (const std::runtime_error& error) {
    text = error.what();
  }
  world.abort();
  MPI_Barrier(MPI_COMM_WORLD);
  return text;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE_TEMPLATE("sums, gathers and copies reach every rank", T, float, double, int32_t, uint8_t) {
  const World world;
  const Stream stream;
  const int rank = mpi_rank(), size = mpi_size();
  for (const size_t count : kCounts) {
    CAPTURE(count);
    const size_t all = count * size_t(size);
    const DeviceArray<T> own(contribution<T>(rank, all)), sum(all), scattered(count), root_sum(all),
        copied(contribution<T>(rank, all)), gathered(all);
    nccl(ncclAllReduce(own.get(), sum.get(), all, kType<T>, ncclSum, world, stream));
    nccl(ncclReduceScatter(own.get(), scattered.get(), count, kType<T>, ncclSum, world, stream));
    nccl(ncclReduce(own.get(), root_sum.get(), all, kType<T>, ncclSum, size - 1, world, stream));
    nccl(ncclBroadcast(own.get(), copied.get(), all, kType<T>, size - 1, world, stream));
    nccl(ncclAllGather(scattered.get(), gathered.get(), count, kType<T>, world, stream));
    stream.synchronize();
    CHECK(sum.host() == total<T>(all));
    CHECK(scattered.host() == part(total<T>(all), rank, count));
    if (rank == size - 1) CHECK(root_sum.host() == total<T>(all));
    CHECK(copied.host() == contribution<T>(size - 1, all));
    CHECK(gathered.host() == total<T>(all));
  }
}

TEST_CASE("collectives work in place") {
  const World world;
  const Stream stream;
  const int rank = mpi_rank(), size = mpi_size();
  const size_t count = 100, all = count * size_t(size);
  const DeviceArray<float> sum(contribution<float>(rank, all)), scattered(contribution<float>(rank, all));
  nccl(ncclAllReduce(sum.get(), sum.get(), all, ncclFloat32, ncclSum, world, stream));
  float* const own = scattered.get() + size_t(rank) * count;
  nccl(ncclReduceScatter(scattered.get(), own, count, ncclFloat32, ncclSum, world, stream));
  nccl(ncclAllGather(own, scattered.get(), count, ncclFloat32, world, stream));
  nccl(ncclBroadcast(sum.get(), sum.get(), all, ncclFloat32, 0, world, stream));
  stream.synchronize();
  CHECK(sum.host() == total<float>(all));
  CHECK(scattered.host() == total<float>(all));
}

TEST_CASE("reductions are those that were asked for, and bf16 is rounded on the way") {
  const World world;
  const Stream stream;
  const int rank = mpi_rank(), size = mpi_size();
  const DeviceArray<float> own(std::vector<float>{float(rank + 1)}), out(4);
  const ncclRedOp_t reductions[] = {ncclProd, ncclMax, ncclMin, ncclAvg};
  for (int i = 0; i < 4; ++i)
    nccl(ncclAllReduce(own.get(), out.get() + i, 1, ncclFloat32, reductions[i], world, stream));
  // 256 and then ones: bf16 holds no odd number beyond 256.
  const DeviceArray<__nv_bfloat16> half(
      std::vector<__nv_bfloat16>{__float2bfloat16_rn(rank == 0 ? 256.0f : 1.0f)});
  nccl(ncclAllReduce(half.get(), half.get(), 1, ncclBfloat16, ncclSum, world, stream));
  stream.synchronize();
  float product = 1, mean = 0;
  for (int i = 1; i <= size; ++i) {
    product *= float(i);
    mean += float(i) * (1.0f / float(size));
  }
  CHECK(out.host() == std::vector<float>{product, float(size), 1, mean});
  CHECK(__bfloat162float(half.host()[0]) == 256.0f);
}

TEST_CASE("messages of a group cross") {
  const World world;
  const Stream stream;
  const int rank = mpi_rank(), size = mpi_size();
  const DeviceArray<int32_t> data(std::vector<int32_t>{rank, -1});
  const DeviceArray<float> sum(std::vector<float>{1});
  nccl(ncclGroupStart());
  nccl(ncclRecv(data.get() + 1, 1, ncclInt32, (rank + size - 1) % size, world, stream));
  nccl(ncclSend(data.get(), 1, ncclInt32, (rank + 1) % size, world, stream));
  nccl(ncclAllReduce(sum.get(), sum.get(), 1, ncclFloat32, ncclSum, world, stream));
  nccl(ncclAllReduce(sum.get(), sum.get(), 1, ncclFloat32, ncclMax, world, stream));
  nccl(ncclGroupEnd());
  stream.synchronize();
  CHECK(data.host()[1] == (rank + size - 1) % size);
  CHECK(sum.host()[0] == float(size));
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
}

TEST_CASE("a communicator splits by colour, in the order of the keys") {
  const World world;
  const Stream stream;
  const int rank = mpi_rank(), size = mpi_size();
  ncclComm_t half = nullptr, none = world;
  nccl(ncclCommSplit(world, rank % 2, size - rank, &half, nullptr));
  nccl(ncclCommSplit(world, NCCL_SPLIT_NOCOLOR, 0, &none, nullptr));
  CHECK(none == nullptr);
  int count = 0, place = -1, device = -1;
  nccl(ncclCommCount(half, &count));
  nccl(ncclCommUserRank(half, &place));
  nccl(ncclCommCuDevice(half, &device));
  CHECK(count == (size + 1 - rank % 2) / 2);
  CHECK(place == count - 1 - rank / 2);
  CHECK(device == 0);
  const DeviceArray<float> data(std::vector<float>{float(rank)});
  nccl(ncclAllReduce(data.get(), data.get(), 1, ncclFloat32, ncclMax, half, stream));
  stream.synchronize();
  const int last = (size - 1) % 2 == rank % 2 ? size - 1 : size - 2;
  CHECK(data.host()[0] == float(last));
  nccl(ncclCommFinalize(half));
  nccl(ncclCommDestroy(half));
  CHECK(ncclCommCount(half, &count) == ncclInvalidArgument);
}

TEST_CASE("without blocking, making and ending a communicator is in progress until all ranks came") {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr, child = nullptr;
  const int rank = mpi_rank(), size = mpi_size();
  const auto settle = [](ncclComm_t which) {
    ncclResult_t state = ncclInProgress;
    const auto start = std::chrono::steady_clock::now();
    while (state == ncclInProgress && std::chrono::steady_clock::now() - start < std::chrono::seconds(60)) {
      nccl(ncclCommGetAsyncError(which, &state));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return state;
  };
  const ncclUniqueId id = common_id();
  if (rank == 0 && size > 1) {  // the others come after this rank was seen waiting
    CHECK(ncclCommInitRankConfig(&comm, size, id, rank, &config) == ncclInProgress);
    ncclResult_t state = ncclSuccess;
    nccl(ncclCommGetAsyncError(comm, &state));
    CHECK(state == ncclInProgress);
    CHECK(ncclAllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, comm, nullptr) == ncclInvalidUsage);
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(ncclCommInitRankConfig(&comm, size, id, rank, &config) == ncclInProgress);
  }
  CHECK(settle(comm) == ncclSuccess);
  CHECK(ncclCommSplit(comm, 0, rank, &child, nullptr) == ncclInProgress);
  CHECK(settle(comm) == ncclSuccess);
  CHECK(settle(child) == ncclSuccess);
  for (const ncclComm_t each : {child, comm}) {
    CHECK(ncclCommFinalize(each) == ncclInProgress);
    CHECK(settle(each) == ncclSuccess);
    nccl(ncclCommDestroy(each));
  }
}

TEST_CASE("a communicator whose peers never come can be aborted") {
  if (mpi_size() == 1) return;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclUniqueId id = common_id();
  if (mpi_rank() == 0) {
    ncclComm_t comm = nullptr;
    CHECK(ncclCommInitRankConfig(&comm, mpi_size(), id, 0, &config) == ncclInProgress);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    nccl(ncclCommAbort(comm));
    ncclResult_t state = ncclSuccess;
    CHECK(ncclCommGetAsyncError(comm, &state) == ncclInvalidArgument);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const World after;  // the thread that makes communicators is free again
}

TEST_CASE("an operation whose peers never come ends when its communicator is aborted, from any thread") {
  if (mpi_size() == 1) return;
  World world;
  if (mpi_rank() == 0) {
    const Stream stream;
    const DeviceArray<float> data(std::vector<float>(4, 0.0f));
    nccl(ncclAllReduce(data.get(), data.get(), 4, ncclFloat32, ncclSum, world, stream));
    std::thread watchdog([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      ncclResult_t state = ncclInProgress;
      ncclCommGetAsyncError(world, &state);
      world.abort();
    });
    stream.synchronize();
    watchdog.join();
  } else {
    world.abort();
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_CASE("operations that the host waits for elsewhere come by themselves") {
  const World world;
  const Stream stream;
  const DeviceArray<float> data(std::vector<float>{1});
  nccl(ncclAllReduce(data.get(), data.get(), 1, ncclFloat32, ncclSum, world, stream));
  if (mpi_rank() == 0) stream.synchronize();  // needs the others, who wait in MPI
  MPI_Barrier(MPI_COMM_WORLD);
  stream.synchronize();
  CHECK(data.host()[0] == float(mpi_size()));
}

TEST_CASE(
    "operations of a communicator keep their order over streams, and two communicators do not block each "
    "other") {
  const test::KeptSettings kept;
  standin::settings().streams = standin::StreamMode::deferred;
  const World first, second;
  const Stream a, b;
  const DeviceArray<float> x(std::vector<float>{1}), y(std::vector<float>{1});
  nccl(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclSum, first, a));
  nccl(ncclAllReduce(y.get(), y.get(), 1, ncclFloat32, ncclSum, first, b));
  nccl(ncclAllReduce(y.get(), y.get(), 1, ncclFloat32, ncclMax, second, b));
  nccl(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclMax, second, a));
  if (mpi_rank() % 2 == 0) b.synchronize();
  a.synchronize();
  b.synchronize();
  CHECK(x.host()[0] == float(mpi_size()));
  CHECK(y.host()[0] == float(mpi_size()));
}

TEST_CASE("a host that looks for an event again and again keeps no other stream from its turn") {
  const test::KeptSettings kept;
  standin::settings().streams = standin::StreamMode::deferred;
  const World first, second;
  const Stream a, b;
  const Event on_a, on_b;
  const DeviceArray<float> x(std::vector<float>{1}), y(std::vector<float>{1});
  nccl(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclSum, first, a));
  nccl(ncclAllReduce(y.get(), y.get(), 1, ncclFloat32, ncclSum, second, b));
  cuda(cudaEventRecord(on_a, a));
  cuda(cudaEventRecord(on_b, b));
  const bool odd = mpi_rank() % 2 == 1;
  const cudaEvent_t first_looked_at = odd ? on_b : on_a, other = odd ? on_a : on_b;
  for (const cudaEvent_t event : {first_looked_at, other}) {
    cudaError_t state = cudaErrorNotReady;
    while (state == cudaErrorNotReady) state = cudaEventQuery(event);
    cuda(state);
  }
  CHECK(x.host()[0] == float(mpi_size()));
  CHECK(y.host()[0] == float(mpi_size()));
}

TEST_CASE("collectives that differ between ranks are found") {
  if (mpi_size() == 1) return;
  const int rank = mpi_rank();
  const bool odd = rank % 2 == 1;
  const auto differ = [](const std::string& text) {
    CAPTURE(text);
    CHECK(has(text, "the ranks of a communicator call different collectives"));
    CHECK(has(text, "rank 1:"));
  };
  differ(complaint([&](ncclComm_t comm, float* data, cudaStream_t stream) {
    ncclAllReduce(data, data, odd ? 3 : 4, ncclFloat32, ncclSum, comm, stream);
  }));
  differ(complaint([&](ncclComm_t comm, float* data, cudaStream_t stream) {
    ncclAllReduce(data, data, 4, odd ? ncclFloat32 : ncclInt32, ncclSum, comm, stream);
  }));
  differ(complaint([&](ncclComm_t comm, float* data, cudaStream_t stream) {
    ncclAllReduce(data, data, 4, ncclFloat32, odd ? ncclMax : ncclSum, comm, stream);
  }));
  differ(complaint([&](ncclComm_t comm, float* data, cudaStream_t stream) {
    ncclBroadcast(data, data, 4, ncclFloat32, odd ? 1 : 0, comm, stream);
  }));
  differ(complaint([&](ncclComm_t comm, float* data, cudaStream_t stream) {
    if (odd) ncclBroadcast(data, data, 4, ncclFloat32, 0, comm, stream);
    ncclAllReduce(data, data, 4, ncclFloat32, ncclSum, comm, stream);
    if (!odd) ncclBroadcast(data, data, 4, ncclFloat32, 0, comm, stream);
  }));
}

TEST_CASE("a collective that some ranks leave out is found, by the next one or by the time limit") {
  if (mpi_size() == 1) return;
  const bool odd = mpi_rank() % 2 == 1;
  std::string text = complaint([&](ncclComm_t comm, float* data, cudaStream_t stream) {
    if (odd) ncclAllReduce(data, data, 4, ncclFloat32, ncclSum, comm, stream);
    ncclAllReduce(data, data, 4, ncclFloat32, ncclSum, comm, stream);
    ncclBroadcast(data, data, 4, ncclFloat32, 0, comm, stream);
  });
  CHECK(has(text, "different collectives"));
  const test::KeptSettings kept;
  standin::settings().timeout = 0.5;
  text = complaint([&](ncclComm_t comm, float* data, cudaStream_t stream) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (odd) ncclAllReduce(data, data, 4, ncclFloat32, ncclSum, comm, stream);
  });
  CHECK(has(text, "deadlock: for 0.5 s a stream has waited for the other ranks") == odd);
}

TEST_CASE("messages that their receiver does not expect are found") {
  if (mpi_size() == 1) return;
  const std::string text = complaint([&](ncclComm_t comm, float* data, cudaStream_t stream) {
    if (mpi_rank() == 0) ncclSend(data, 4, ncclFloat32, 1, comm, stream);
    if (mpi_rank() == 1) ncclRecv(data, 3, ncclFloat32, 0, comm, stream);
  });
  CHECK(has(text, "rank 0 sends 4 float32, and rank 1 expects 3 float32") == (mpi_rank() == 1));
}

TEST_CASE("buffers that are too short, of the host, or half in place are refused") {
  const auto refused = [](const std::string& message, auto work) {
    const std::string text = complaint(work);
    CAPTURE(text);
    CHECK(has(text, message));
  };
  refused("reaches beyond its allocation", [](ncclComm_t comm, float* data, cudaStream_t stream) {
    ncclAllReduce(data, data, 17, ncclFloat32, ncclSum, comm, stream);
  });
  refused("is not memory that a device can reach", [](ncclComm_t comm, float* data, cudaStream_t stream) {
    static float host[4];
    ncclAllReduce(host, data, 4, ncclFloat32, ncclSum, comm, stream);
  });
  refused("overlap", [](ncclComm_t comm, float* data, cudaStream_t stream) {
    ncclAllReduce(data, data + 2, 4, ncclFloat32, ncclSum, comm, stream);
  });
}

TEST_CASE("a communicator takes memory of its device until it is destroyed, if there is so much") {
  const test::KeptSettings kept;
  const auto free_memory = [] {
    size_t free = 0, total = 0;
    cuda(cudaMemGetInfo(&free, &total));
    return free;
  };
  const size_t before = free_memory(), taken = 1 << 20;
  standin::settings().nccl_memory = taken;
  {
    const World world;
    CHECK(free_memory() == before - taken);
  }
  CHECK(free_memory() == before);
  standin::settings().nccl_memory = before + 1;
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, mpi_size(), common_id(), mpi_rank()) == ncclUnhandledCudaError);
  CHECK(has(ncclGetLastError(nullptr), "out of memory"));
}

TEST_CASE("arguments that NCCL refuses are refused, and the environment acts out failures") {
  const World world;
  const Stream stream;
  const DeviceArray<float> data(std::vector<float>{0});
  CHECK(ncclBroadcast(data.get(), data.get(), 1, ncclFloat32, mpi_size(), world, stream) ==
        ncclInvalidArgument);
  CHECK(has(ncclGetLastError(world), "rank"));
  CHECK(ncclAllReduce(data.get(), data.get(), 1, ncclFloat16, ncclSum, world, stream) == ncclInvalidArgument);
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, 2, {}, 2) == ncclInvalidArgument);
  int version = 0;
  nccl(ncclGetVersion(&version));
  CHECK(version == NCCL_VERSION_CODE);

  setenv("GPT_CUDA_STANDIN_NCCL_VERSION", "22703", 1);
  setenv("GPT_CUDA_STANDIN_NCCL_INIT", "system", 1);
  setenv("GPT_CUDA_STANDIN_NCCL_ASYNC", "remote", 1);
  nccl(ncclGetVersion(&version));
  CHECK(version == 22703);
  CHECK(ncclCommInitRank(&comm, 1, {}, 0) == ncclSystemError);
  ncclResult_t state = ncclSuccess;
  nccl(ncclCommGetAsyncError(world, &state));
  CHECK(state == ncclRemoteError);
  for (const char* name : {"VERSION", "INIT", "ASYNC"})
    unsetenv((std::string("GPT_CUDA_STANDIN_NCCL_") + name).c_str());
  void* memory = nullptr;
  nccl(ncclMemAlloc(&memory, 64));
  nccl(ncclMemFree(memory));
}

}  // namespace gpt
