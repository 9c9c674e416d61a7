#include "fuzz/isolation.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <new>
#include <stdexcept>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gpt::fuzz {
namespace {

constexpr int failed = 97;           // the case did what no reader may, and said so
constexpr int crashed = 98;          // a signal
constexpr int longest_seconds = 10;  // of computing in one case
constexpr rlim_t most_memory = rlim_t{4} << 30;

/// What the two processes share.
struct Board {
  uint64_t number = 0;  // of the case under way
  uint64_t accepted = 0;
  uint64_t refused = 0;
  bool in_hdf5 = false;
  int signal = 0;
  std::array<char, 512> message{};
};

Board* board = nullptr;

/// Whether the innermost of our functions and HDF5's is one of HDF5's. The first frames are the handler's
/// own.
bool is_in_hdf5() {
  std::array<void*, 64> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  Dl_info own{};
  dladdr(reinterpret_cast<void*>(&is_in_hdf5), &own);
  bool behind_handler = false;
  for (int i = 0; i < count; ++i) {
    Dl_info info{};
    if (dladdr(frames[static_cast<size_t>(i)], &info) == 0 || info.dli_fname == nullptr) continue;
    const bool ours = info.dli_fbase == own.dli_fbase;
    if (!ours) behind_handler = true;
    if (behind_handler && ours) return false;
    if (std::string_view(info.dli_fname).find("libhdf5") != std::string_view::npos) return true;
  }
  return false;
}

void on_signal(int number) {
  board->signal = number;
  board->in_hdf5 = is_in_hdf5();
  _exit(crashed);
}

void catch_signals() {
  static std::array<char, size_t{256} << 10> stack;  // after endless recursion there is no other
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF})
    sigaction(number, &action, nullptr);
}

/// Memory beyond any need of small files is not to be had. The address sanitizer reserves terabytes, and has
/// a limit of its own, set below.
void limit_memory() {
  if (dlsym(RTLD_DEFAULT, "__asan_init") != nullptr) return;
  const rlimit limit{.rlim_cur = most_memory, .rlim_max = most_memory};
  setrlimit(RLIMIT_AS, &limit);
}

void limit_time() {
  itimerval timer{};
  timer.it_value.tv_sec = longest_seconds;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

[[noreturn]] void run_cases(uint64_t first, const std::function<bool(uint64_t)>& wanted,
                            const std::function<CaseEnd(uint64_t)>& run) {
  is_in_hdf5();  // the first call of backtrace loads a library
  catch_signals();
  limit_memory();
  try {
    for (board->number = first; wanted(board->number); ++board->number) {
      limit_time();
      ++(run(board->number) == CaseEnd::accepted ? board->accepted : board->refused);
    }
  } catch (const std::exception& error) {
    std::snprintf(board->message.data(), board->message.size(), "%s", error.what());
    _exit(failed);
  }
  _exit(0);
}

std::string describe(int status) {
  if (WIFSIGNALED(status)) return std::string("ended by signal: ") + strsignal(WTERMSIG(status));
  switch (WEXITSTATUS(status)) {
    case 0:
      return {};
    case failed:
      return board->message.data();
    case crashed:
      return board->signal == SIGPROF ? std::string("no end after ten seconds of computing")
                                      : std::string("signal: ") + strsignal(board->signal);
    default:
      return "ended by a sanitizer, whose report stands above";
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw std::runtime_error("cannot wait for a process");
  return status;
}

pid_t fork_checked() {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(std::string("cannot fork: ") + std::strerror(errno));
  return child;
}

}  // namespace

void note_sanitizer_finding() {
  if (board != nullptr) board->in_hdf5 = is_in_hdf5();
}

BatchEnd run_batch(uint64_t first, const std::function<bool(uint64_t)>& wanted,
                   const std::function<CaseEnd(uint64_t)>& run) {
  if (board == nullptr) {
    void* const memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("no memory to share");
    board = static_cast<Board*>(memory);
  }
  new (board) Board;
  const pid_t child = fork_checked();
  if (child == 0) run_cases(first, wanted, run);
  BatchEnd end{.failure = describe(wait_for(child))};
  end.next = board->number + (end.failure.empty() ? 0 : 1);
  end.accepted = board->accepted;
  end.refused = board->refused;
  end.in_hdf5 = board->in_hdf5;
  return end;
}

void run_apart(const std::function<void()>& work) {
  const pid_t child = fork_checked();
  if (child == 0) {
    try {
      work();
      _exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
  }
  if (wait_for(child) != 0) throw std::runtime_error("a process that prepares the files failed");
}

}  // namespace gpt::fuzz

// Called by the address sanitizer where there is one. Findings end the process with a code of their own;
// memory that no small file needs is refused, as where there is none left.
extern "C" {
const char* __asan_default_options() {
  return "exitcode=99:detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=1024";
}
void __asan_on_error() { gpt::fuzz::note_sanitizer_finding(); }
}
