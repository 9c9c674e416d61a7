#include "train/append_file.hpp"

#include "base/error.hpp"
#include "support/faults.hpp"
#include "support/scratch_folder.hpp"

#include <csignal>
#include <doctest/doctest.h>
#include <fstream>
#include <sys/resource.h>
#include <vector>

using namespace gpt;

namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// Files of this process may not grow beyond `bytes`, as on a full disk.
struct FullDisk {
  explicit FullDisk(rlim_t bytes) : handler(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before);
    const struct rlimit now { bytes, before.rlim_max };
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
  }
  struct rlimit before {};
  void (*handler)(int);
};

}  // namespace

TEST_CASE("lines that a full disk does not take are lost, and no other line with them") {
  const test::ScratchFolder folder;
  const std::string path = folder / "log";
  AppendFile file(path, false);
  file.append("one\n");
  {
    const FullDisk disk(6);
    CHECK_NOTHROW(file.append("two\n"));  // two bytes of it fit
    CHECK_NOTHROW(file.append("three\n"));
  }
  file.append("four\n");
  CHECK(lines_of(path) == std::vector<std::string>{"one", "tw", "four"});
}

TEST_CASE("injected faults lose what a real full disk would") {
  const test::ScratchFolder folder;
  const std::string path = folder / "log";
  AppendFile file(path, false);
  const test::Faults faults("log.write:short@hit=2;log.write:full@hit=3;log.write:ioerror@hit=4");
  for (const char* line : {"one\n", "three\n", "four\n", "five\n", "six\n"}) CHECK_NOTHROW(file.append(line));
  CHECK(lines_of(path) == std::vector<std::string>{"one", "thr", "six"});
}

TEST_CASE("a torn line is ended before the next, and an old file goes on or begins anew") {
  const test::ScratchFolder folder;
  const std::string path = folder / "log";
  std::ofstream(path) << "whole\ntor";
  AppendFile(path, false).append("next\n");
  CHECK(lines_of(path) == std::vector<std::string>{"whole", "tor", "next"});
  AppendFile(path, true).append("new\n");
  CHECK(lines_of(path) == std::vector<std::string>{"new"});
}

TEST_CASE("what is no regular file is refused instead of read or written for ever") {
  const test::ScratchFolder folder;
  CHECK_THROWS_AS(AppendFile(folder.path(), false), Error);
  CHECK_THROWS_AS(AppendFile("/dev/null", false), Error);
  CHECK_THROWS_AS(AppendFile(folder / "absent/log", false), Error);
}
