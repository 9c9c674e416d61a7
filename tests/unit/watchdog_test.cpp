#include "comm/watchdog.hpp"

#include "base/error.hpp"
#include "support/run_alone.hpp"
#include "support/scratch_folder.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>

namespace gpt {
namespace {

using namespace std::chrono_literals;
constexpr double timeout = 0.5;  // seconds

/// A watchdog of a process that is to be ended.
struct Child {
  Watchdog watchdog{"child", timeout};
  Child() {
    watchdog.set_folder(std::getenv("GPT_TEST_FOLDER"));
    watchdog.enter(Phase::save, 7);
  }
};

Verdict because(const std::string& reason) {
  Verdict verdict;
  verdict.reason = reason;
  return verdict;
}

void write_file(const std::string& path) { std::ofstream(path) << "done\n"; }

struct End {
  bool passed;
  double seconds;
  nlohmann::json verdict;
};

End run_child(const std::string& name) {
  const test::ScratchFolder folder;
  const auto start = std::chrono::steady_clock::now();
  const bool passed = test::run_alone("child: " + name, "GPT_TEST_FOLDER='" + folder.path() + "'");
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {passed, seconds, nlohmann::json::parse(test::bytes_of(folder / "verdict.json"), nullptr, false)};
}

}  // namespace

TEST_CASE("child: hangs" * doctest::skip()) {
  const Child child;
  std::this_thread::sleep_for(60s);
}

TEST_CASE("a main thread without a tick is ended, with a verdict") {
  const End end = run_child("hangs");
  CHECK_FALSE(end.passed);
  CHECK(end.seconds < 20);
  REQUIRE(end.verdict.is_object());
  CHECK(end.verdict["exit_code"] == 10);
  CHECK(end.verdict["rank"] == 0);
  CHECK(end.verdict["step"] == 7);
  CHECK(end.verdict["phase"] == "save");
  CHECK(end.verdict["reason"].get<std::string>().find("stands still in save at step 7") != std::string::npos);
}

TEST_CASE("child: cannot speak" * doctest::skip()) {
  const Child child;
  int ends[2] = {};
  REQUIRE(pipe(ends) == 0);
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  while (write(ends[1], "x", 1) == 1) {
  }
  fcntl(ends[1], F_SETFL, 0);
  dup2(ends[1], STDERR_FILENO);
  std::this_thread::sleep_for(60s);
}

TEST_CASE("it is also ended when nobody reads standard error") {
  const End end = run_child("cannot speak");
  CHECK_FALSE(end.passed);
  CHECK(end.seconds < 20);
}

TEST_CASE("child: ticks" * doctest::skip()) {
  Child child;
  for (int i = 0; i < 30; ++i) {
    std::this_thread::sleep_for(50ms);
    child.watchdog.tick();
  }
}

TEST_CASE("one that ticks goes on") {
  const End end = run_child("ticks");
  CHECK(end.passed);
  CHECK(end.verdict.is_discarded());
}

TEST_CASE("child: is stopped for a while" * doctest::skip()) {
  const Child child;
  const pid_t self = getpid();
  const pid_t waker = fork();
  REQUIRE(waker >= 0);
  if (waker == 0) {
    std::this_thread::sleep_for(1500ms);
    kill(self, SIGCONT);
    _exit(0);
  }
  raise(SIGSTOP);
}

TEST_CASE("time in which the process was stopped does not count") {
  CHECK(run_child("is stopped for a while").passed);
}

TEST_CASE("child: fails and cannot unwind" * doctest::skip()) {
  struct Stuck {
    Stuck() = default;
    Stuck(const Stuck&) = delete;
    ~Stuck() { std::this_thread::sleep_for(60s); }
  };
  Watchdog watchdog("child", 0);
  watchdog.set_folder(std::getenv("GPT_TEST_FOLDER"));
  try {
    const Stuck stuck;
    watchdog.limit_unwinding([] { throw Error("the shard is damaged", ExitCode::damaged); });
  } catch (const Error&) {
  }
}

TEST_CASE("an error that does not reach main ends the job, whatever the timeout") {
  const End end = run_child("fails and cannot unwind");
  CHECK_FALSE(end.passed);
  CHECK(end.seconds > 2);
  CHECK(end.seconds < 20);
  REQUIRE(end.verdict.is_object());
  CHECK(end.verdict["exit_code"] == 11);
  CHECK(end.verdict["reason"] == "the shard is damaged");
}

TEST_CASE("child: looks after what fails" * doctest::skip()) {
  Watchdog watchdog("child", 0);
  watchdog.set_folder(std::getenv("GPT_TEST_FOLDER"));
  const std::string aborted = std::getenv("GPT_TEST_FOLDER") + std::string("/aborted");
  watchdog.look_after([] { return std::optional<std::string>("the network is gone"); },
                      [&] { write_file(aborted); });
  std::this_thread::sleep_for(60s);
}

TEST_CASE("what fails without a call that reports it ends the job, and is aborted") {
  const test::ScratchFolder folder;
  CHECK_FALSE(test::run_alone("child: looks after what fails", "GPT_TEST_FOLDER='" + folder.path() + "'"));
  const auto verdict = nlohmann::json::parse(test::bytes_of(folder / "verdict.json"), nullptr, false);
  REQUIRE(verdict.is_object());
  CHECK(verdict["exit_code"] == 10);
  CHECK(verdict["reason"] == "the network is gone");
  CHECK(std::filesystem::exists(folder / "aborted"));
}

TEST_CASE("it asks again and again, and no more after look_away") {
  Watchdog watchdog("test", timeout);
  std::atomic<int> asked = 0;
  watchdog.look_after(
      [&] {
        ++asked;
        watchdog.tick();
        return std::optional<std::string>();
      },
      [] {});
  for (int i = 0; asked < 3 && i < 1000; ++i) std::this_thread::sleep_for(10ms);
  CHECK(asked >= 3);
  watchdog.look_away();
  const int before = asked;
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(20ms);
    watchdog.tick();
  }
  CHECK(asked == before);
}

TEST_CASE("a verdict names a rank and its host, or neither") {
  const auto written = [](const Verdict& verdict) {
    const test::ScratchFolder folder;
    CHECK(write_verdict(folder.path(), verdict));
    return nlohmann::json::parse(test::bytes_of(folder / "verdict.json"));
  };
  Verdict of_rank = because("it broke");
  of_rank.rank = 3;
  of_rank.host = "n1";
  const nlohmann::json named = written(of_rank);
  CHECK(named["rank"] == 3);
  CHECK(named["host"] == "n1");
  const nlohmann::json unnamed = written(because("nobody is behind"));
  CHECK_FALSE(unnamed.contains("rank"));
  CHECK_FALSE(unnamed.contains("host"));
  CHECK(unnamed["reported_by"] == 0);
}

TEST_CASE("the first verdict stays, until the next attempt") {
  const test::ScratchFolder folder;
  const auto reason = [&] {
    return nlohmann::json::parse(test::bytes_of(folder / "verdict.json"))["reason"].get<std::string>();
  };
  CHECK(write_verdict(folder.path(), because("first \"\xff\"")));
  CHECK_FALSE(write_verdict(folder.path(), because("second")));
  CHECK(reason() == "first \"\xef\xbf\xbd\"");
  const auto files = std::filesystem::directory_iterator(folder.path());
  CHECK(std::distance(begin(files), end(files)) == 1);
  remove_verdict(folder.path());
  remove_verdict(folder.path());
  CHECK(write_verdict(folder.path(), because("third")));
  CHECK(reason() == "third");
  CHECK(write_verdict(folder / "missing", because("nobody has told it")));
}

}  // namespace gpt
