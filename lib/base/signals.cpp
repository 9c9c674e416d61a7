#include "base/signals.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <memory>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace gpt {
namespace {

constexpr std::array handled = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};

struct LastWords {
  std::string line;
  std::string told;
};

// A handler has no arguments. Never deleted: a signal may come while the process ends by itself.
std::atomic<const LastWords*> last_words = nullptr;
std::atomic<const LastWords*> answer = nullptr;
std::atomic<const std::string*> job_ends_where = nullptr;
std::atomic_flag said;
std::atomic<bool> takes_requests = false;
std::atomic<int> asked = 0;
std::atomic_flag asked_to_end;  // by SIGTERM or SIGINT
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const LastWords*>::is_always_lock_free);

/// Where it fails there is nobody to be told.
void write_now(const std::string& line) {
  struct pollfd standard_error = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (poll(&standard_error, 1, 0) != 1 || (standard_error.revents & POLLOUT) == 0) return;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

void write_unless_told(const LastWords& words) {
  if (access(words.told.c_str(), F_OK) != 0) write_now(words.line);
}

void end_by(int number) {
  if (const LastWords* const words = last_words; words != nullptr && !said.test_and_set())
    write_unless_told(*words);
  std::signal(number, SIG_DFL);
  raise(number);  // in a handler, where it is blocked: acts when that returns
}

void handle(int number) {
  const bool ends = number == SIGTERM || number == SIGINT;
  int none = 0;
  const bool first = asked.compare_exchange_strong(none, number);
  const std::string* const told = job_ends_where;
  const bool job_ends = ends && told != nullptr && access(told->c_str(), F_OK) == 0;
  if (!takes_requests || job_ends || (ends && asked_to_end.test_and_set())) return end_by(number);
  const LastWords* const words = answer;
  if (first && number != SIGTERM && words != nullptr) write_unless_told(*words);
}

/// A thread's, as long as it lives; nothing where somebody else has given it one.
class SignalStack {
public:
  SignalStack() {
    stack_t before{};
    if (sigaltstack(nullptr, &before) != 0 || (before.ss_flags & SS_DISABLE) == 0) return;
    memory_ = std::make_unique<std::byte[]>(bytes);
    const stack_t stack = {.ss_sp = memory_.get(), .ss_flags = 0, .ss_size = bytes};
    sigaltstack(&stack, nullptr);
  }
  ~SignalStack() {
    if (!memory_) return;
    const stack_t none = {.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    sigaltstack(&none, nullptr);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

private:
  static constexpr size_t bytes = size_t{64} << 10;  // with AMX a handler's frame alone takes 12 KiB
  std::unique_ptr<std::byte[]> memory_;
};

/// Unless it is ignored.
void install(int number, void (*handler)(int)) {
  struct sigaction before {};
  if (sigaction(number, nullptr, &before) != 0 || before.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(number, &action, nullptr);
}

}  // namespace

void take_stop_requests() {
  takes_requests = true;
  for (const int number : handled) install(number, handle);
}

int stop_signal() { return asked; }

std::string signal_name(int number) {
  switch (number) {
    case SIGTERM:
      return "SIGTERM";
    case SIGINT:
      return "SIGINT";
    case SIGUSR1:
      return "SIGUSR1";
    case SIGUSR2:
      return "SIGUSR2";
    default:
      return "signal " + std::to_string(number);
  }
}

void refuse_stop_requests() {
  takes_requests = false;
  for (const int number : {SIGUSR1, SIGUSR2}) install(number, SIG_DFL);
  if (asked != 0) end_by(asked);
}

void answer_to_sigterm() {
  if (const LastWords* const words = answer; words != nullptr && asked == SIGTERM) write_unless_told(*words);
}

void end_at_once_where(std::string told) { job_ends_where = new std::string(std::move(told)); }

void use_signal_stack() { thread_local const SignalStack stack; }

void say_before_signals_end_it(std::string line, std::string told) {
  last_words = new LastWords{std::move(line) + '\n', std::move(told)};
  for (const int number : {SIGTERM, SIGINT}) install(number, handle);
}

// The string stays, since a handler may be reading it.
AnswerToStop::AnswerToStop(const std::string& line, const std::string& told) {
  if (!line.empty()) answer = new LastWords{line + '\n', told};
}
AnswerToStop::~AnswerToStop() { answer = nullptr; }

}  // namespace gpt
