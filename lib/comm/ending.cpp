#include "comm/ending.hpp"

#include "base/mpi.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace gpt {
namespace {

using namespace std::chrono_literals;
constexpr auto time_to_tell = 500ms;
constexpr auto time_to_abort = 1s;

// A process ends once.
std::atomic_flag under_way;

void run_aside(const std::function<void()>& work) {
  auto done = std::make_shared<std::promise<void>>();
  const std::future<void> end = done->get_future();
  std::thread([work, done] {
    work();
    done->set_value();
  }).detach();
  end.wait_for(time_to_tell);
}

bool mpi_is_up() {
  int begun = 0, ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  return begun != 0 && ended == 0;
}

}  // namespace

void end_job(int code, const std::function<void()>& tell) {
  while (under_way.test_and_set()) std::this_thread::sleep_for(1s);
  try {
    // MPI_Abort waits for the launcher's daemon, which may hang as well. A rank that is gone with this code
    // makes the launcher end the others.
    std::thread([code] {
      std::this_thread::sleep_for(time_to_tell + time_to_abort);
      _exit(code);
    }).detach();
    run_aside(tell);
  } catch (const std::system_error&) {  // no more threads to be had
    alarm(2);
    tell();
  }
  if (mpi_is_up()) MPI_Abort(MPI_COMM_WORLD, code);
  _exit(code);
}

}  // namespace gpt
