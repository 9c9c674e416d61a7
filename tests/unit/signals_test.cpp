#include "base/signals.hpp"

#include "support/run_alone.hpp"
#include "support/scratch_folder.hpp"

#include <array>
#include <csignal>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <unistd.h>

namespace gpt {
namespace {

/// What is written to standard error while it lives.
class Errors {
public:
  Errors() : before_(dup(STDERR_FILENO)) {
    REQUIRE(pipe2(pipe_.data(), O_CLOEXEC) == 0);
    dup2(pipe_[1], STDERR_FILENO);
  }
  ~Errors() {
    dup2(before_, STDERR_FILENO);
    for (const int file : {before_, pipe_[0], pipe_[1]}) close(file);
  }
  Errors(const Errors&) = delete;
  Errors& operator=(const Errors&) = delete;

  /// Since the last call.
  std::string take() const {
    std::string text;
    struct pollfd ready = {.fd = pipe_[0], .events = POLLIN, .revents = 0};
    std::array<char, 256> bytes{};
    while (poll(&ready, 1, 0) == 1) {
      const ssize_t got = read(pipe_[0], bytes.data(), bytes.size());
      if (got <= 0) break;
      text.append(bytes.data(), static_cast<size_t>(got));
    }
    return text;
  }

private:
  int before_;
  std::array<int, 2> pipe_{};
};

/// Handlers stay for the life of a process: each case has one of its own.
bool passes(const std::string& test_case) { return test::run_alone("child: " + test_case, ""); }

}  // namespace

TEST_CASE("signals have names") {
  CHECK(signal_name(SIGTERM) == "SIGTERM");
  CHECK(signal_name(SIGINT) == "SIGINT");
  CHECK(signal_name(SIGUSR1) == "SIGUSR1");
  CHECK(signal_name(SIGUSR2) == "SIGUSR2");
  CHECK(signal_name(99) == "signal 99");
}

TEST_CASE("the first signal is remembered, and none but a second SIGTERM or SIGINT ends the process") {
  CHECK(passes("many requests are one"));
  CHECK_FALSE(passes("the second SIGTERM ends it"));
  CHECK_FALSE(passes("SIGINT after SIGTERM ends it"));
}

TEST_CASE("child: many requests are one" * doctest::skip()) {
  CHECK(stop_signal() == 0);
  take_stop_requests();
  raise(SIGUSR2);
  for (int i = 0; i < 3; ++i) {
    raise(SIGUSR1);
    raise(SIGUSR2);
  }
  raise(SIGTERM);  // the first of those that end
  CHECK(stop_signal() == SIGUSR2);
}

TEST_CASE("child: the second SIGTERM ends it" * doctest::skip()) {
  take_stop_requests();
  raise(SIGTERM);
  raise(SIGTERM);
}

TEST_CASE("child: SIGINT after SIGTERM ends it" * doctest::skip()) {
  take_stop_requests();
  raise(SIGTERM);
  raise(SIGINT);
}

TEST_CASE("a signal that was ignored stays so") { CHECK(passes("ignored signals")); }

TEST_CASE("child: ignored signals" * doctest::skip()) {
  std::signal(SIGUSR1, SIG_IGN);
  take_stop_requests();
  raise(SIGUSR1);
  CHECK(stop_signal() == 0);
}

TEST_CASE("who does not take requests ends at once, also for one that has come before") {
  CHECK_FALSE(passes("SIGUSR1 where none is taken"));
  CHECK_FALSE(passes("SIGTERM before they are refused"));
}

TEST_CASE("child: SIGUSR1 where none is taken" * doctest::skip()) {
  take_stop_requests();
  refuse_stop_requests();
  raise(SIGUSR1);
}

TEST_CASE("child: SIGTERM before they are refused" * doctest::skip()) {
  take_stop_requests();
  raise(SIGTERM);
  refuse_stop_requests();
}

TEST_CASE("a request is answered once: SIGTERM when it is agreed upon, others at once") {
  CHECK(passes("SIGUSR1 is answered"));
  CHECK(passes("SIGTERM is answered late"));
}

TEST_CASE("child: SIGUSR1 is answered" * doctest::skip()) {
  const test::ScratchFolder folder;
  const Errors errors;
  take_stop_requests();
  const AnswerToStop answer("the run stops soon", folder / "verdict.json");
  raise(SIGUSR1);
  CHECK(errors.take() == "the run stops soon\n");
  raise(SIGUSR1);
  raise(SIGTERM);
  answer_to_sigterm();  // was not the first
  CHECK(errors.take().empty());
}

TEST_CASE("child: SIGTERM is answered late" * doctest::skip()) {
  const test::ScratchFolder folder;
  const Errors errors;
  take_stop_requests();
  const AnswerToStop answer("the run stops soon", folder / "verdict.json");
  raise(SIGTERM);
  CHECK(errors.take().empty());  // it may be the launcher, that ends a job which has lost a rank
  answer_to_sigterm();
  CHECK(errors.take() == "the run stops soon\n");
}

TEST_CASE("where a verdict stands signals end the process, and nothing more is said") {
  CHECK_FALSE(passes("SIGTERM under a verdict"));
  CHECK(passes("no answer under a verdict"));
}

TEST_CASE("child: SIGTERM under a verdict" * doctest::skip()) {
  const test::ScratchFolder folder;
  take_stop_requests();
  end_at_once_where(folder / "verdict.json");
  raise(SIGUSR1);
  CHECK(stop_signal() == SIGUSR1);
  test::write_bytes(folder / "verdict.json", "{}");
  raise(SIGTERM);
}

TEST_CASE("child: no answer under a verdict" * doctest::skip()) {
  const test::ScratchFolder folder;
  const Errors errors;
  take_stop_requests();
  test::write_bytes(folder / "verdict.json", "{}");
  const AnswerToStop answer("the run stops soon", folder / "verdict.json");
  raise(SIGUSR1);
  CHECK(errors.take().empty());
}

}  // namespace gpt
