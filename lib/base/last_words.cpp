#include "base/last_words.hpp"

#include <atomic>
#include <csignal>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace gpt {
namespace {

struct LastWords {
  std::string line;
  std::string told;
};

// A handler has no arguments. Never deleted: a signal may come while the process ends by itself.
const LastWords* last_words = nullptr;
std::atomic_flag said;

// Blocked while it runs, so that the raised signal acts when it returns: by default, after SA_RESETHAND.
void tell(int number) {
  if (!said.test_and_set() && access(last_words->told.c_str(), F_OK) != 0) {
    struct pollfd standard_error = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    const bool takes = poll(&standard_error, 1, 0) == 1 && (standard_error.revents & POLLOUT) != 0;
    // Where it fails there is nobody to be told.
    [[maybe_unused]] const ssize_t written =
        takes ? write(STDERR_FILENO, last_words->line.data(), last_words->line.size()) : 0;
  }
  raise(number);
}

}  // namespace

void say_before_signals_end_it(std::string line, std::string told) {
  last_words = new LastWords{std::move(line) + '\n', std::move(told)};
  struct sigaction action {};
  action.sa_handler = tell;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction before {};
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
      sigaction(number, &action, nullptr);
  }
}

}  // namespace gpt
