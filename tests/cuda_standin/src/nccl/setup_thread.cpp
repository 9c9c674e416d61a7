#include "setup_thread.hpp"

#include "../failure.hpp"
#include "../settings.hpp"
#include "communicator.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace standin {
namespace {

constexpr auto kGlance = std::chrono::microseconds(200);

class SetupThread {
public:
  SetupThread() {
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE) fail("NCCL: MPI must be initialised with MPI_THREAD_MULTIPLE");
    std::thread([this] { serve(); }).detach();
  }

  void add(std::function<void()> job) {
    const std::scoped_lock lock(mutex_);
    jobs_.push_back(std::move(job));
    more_.notify_one();
  }

private:
  void serve() {
    for (;;) {
      std::unique_lock lock(mutex_);
      more_.wait(lock, [&] { return !jobs_.empty(); });
      const auto job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
    }
  }

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::function<void()>> jobs_;
};

}  // namespace

void run_in_setup_thread(ncclComm* comm, std::function<ncclResult_t()> job) {
  static SetupThread& thread = *new SetupThread;  // still waits at the program's end
  comm->state = ncclInProgress;
  thread.add([comm, job = std::move(job)] { comm->state = comm->aborted ? ncclInternalError : job(); });
}

bool wait_for(const ncclComm& comm, const std::function<bool()>& done) {
  while (!done()) {
    if (comm.aborted) return false;
    std::this_thread::sleep_for(kGlance);
  }
  return true;
}

ncclResult_t settle(const ncclComm& comm, const char* action) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  while (comm.state == ncclInProgress) {
    std::this_thread::sleep_for(kGlance);
    if (std::chrono::duration<double>(Clock::now() - start).count() > settings().timeout)
      fail("NCCL: deadlock: for {} s rank {} of {} has waited in {}", settings().timeout, comm.rank,
           comm.size, action);
  }
  return comm.state;
}

}  // namespace standin
