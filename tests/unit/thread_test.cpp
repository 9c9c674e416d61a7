#include "base/thread.hpp"

#include "base/error.hpp"

#include <atomic>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace gpt {
namespace {

/// Holds this process to the addresses that it has and `more`.
class AddressLimit {
public:
  explicit AddressLimit(rlim_t more) {
    getrlimit(RLIMIT_AS, &before_);
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = before_;
    limit.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + more;
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &before_); }
  AddressLimit(const AddressLimit&) = delete;
  AddressLimit& operator=(const AddressLimit&) = delete;

private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("a thread runs its work, and is told to stop") {
  std::atomic<bool> stopped = false;
  {
    const std::jthread thread = start_thread("a test", [&](const std::stop_token& stop) {
      while (!stop.stop_requested()) std::this_thread::yield();
      stopped = true;
    });
  }
  CHECK(stopped);
  CHECK_NOTHROW(require_threads("a test", 3));
  CHECK_NOTHROW(require_threads("a test", 0));
}

TEST_CASE("where there is no thread to be had, what it was for and the limits are named") {
  if (std::getenv("GPT_TEST_SANITIZED") != nullptr) return;  // sanitizers need addresses of their own
  std::string said;
  {
    const AddressLimit limit(rlim_t{64} << 20);  // a few threads' stacks
    try {
      require_threads("computing", 200);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::failed);
      said = error.what();
    }
  }
  for (const char* part : {"cannot start a thread for computing: ", "temporarily unavailable", "ulimit -u",
                           "KiB of addresses (ulimit -v)", "--threads"}) {
    CAPTURE(said);
    CHECK(said.find(part) != std::string::npos);
  }
}

}  // namespace gpt
