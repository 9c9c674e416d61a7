#include "train/run_folder.hpp"

#include "base/error.hpp"
#include "base/fault.hpp"
#include "support/errors.hpp"
#include "support/faults.hpp"
#include "support/run_alone.hpp"
#include "support/scratch_folder.hpp"
#include "train/lease.hpp"

#include <atomic>
#include <csignal>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <functional>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace gpt {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::says;
using test::ScratchFolder;

std::string refusal(const std::function<void()>& work) { return test::failure(ExitCode::usage, work); }

/// A process that is there until the object is destroyed.
class OtherProcess {
public:
  OtherProcess() : process_(fork()) {
    if (process_ == 0) {
      pause();
      _exit(0);
    }
  }
  ~OtherProcess() {
    end();
    waitpid(process_, nullptr, 0);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  /// It stays a zombie until it is waited for.
  void end() const {
    kill(process_, SIGKILL);
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT);
  }

  LeaseHolder holder() const {
    LeaseHolder holder = this_holder();
    holder.process = process_;
    std::string line = test::bytes_of("/proc/" + std::to_string(process_) + "/stat");
    line = line.substr(line.rfind(')') + 2);
    for (int field = 3; field < 22; ++field) line = line.substr(line.find(' ') + 1);
    holder.start = std::stoll(line);
    return holder;
  }

private:
  pid_t process_;
};

void write_lease(const ScratchFolder& folder, const std::string& text, std::chrono::seconds age) {
  test::write_bytes(folder / "lease.json", text);
  const timespec past{time(nullptr) - age.count(), 0};
  const timespec times[] = {past, past};
  REQUIRE(utimensat(AT_FDCWD, (folder / "lease.json").c_str(), times, 0) == 0);
}

/// Only the lease and nothing beside it.
bool only_lease(const ScratchFolder& folder) {
  int64_t entries = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder.path())) ++entries;
  return entries == 1 && fs::exists(folder / "lease.json");
}

TEST_CASE("a run folder is made with its parents, held, and given back") {
  const ScratchFolder folder;
  const std::string path = folder / "a/b/run";
  {
    const RunFolder run(path);
    CHECK(run.path() == path);
    CHECK(run.checkpoints() == path + "/checkpoints");
    CHECK(parse_lease(test::bytes_of(path + "/lease.json")) == this_holder());
    CHECK_NOTHROW(run.confirm());
    const std::string message = refusal([&] { RunFolder second(path); });
    says(message, "run folder " + path + " is in use by process " + std::to_string(getpid()));
    CHECK_NOTHROW(run.confirm());
  }
  CHECK(fs::is_empty(path));
  CHECK_NOTHROW(RunFolder{path});
}

TEST_CASE("a folder that cannot be used is named with the reason") {
  const ScratchFolder folder;
  test::write_bytes(folder / "file", "");
  says(refusal([&] { RunFolder run(folder / "file"); }), (folder / "file") + ": ");
  says(refusal([&] { RunFolder run(folder / "file/run"); }), "Not a directory");
  says(refusal([&] { RunFolder run("/proc/run"); }), "/proc/run");
  fs::create_directory(folder / "lease.json");
  says(refusal([&] { RunFolder run(folder.path()); }), "lease.json is not a regular file");
}

TEST_CASE(
    "a lease of a live process on this host holds however old it is; that of a dead one is void at once") {
  const ScratchFolder folder;
  const OtherProcess other;
  const LeaseHolder holder = other.holder();
  write_lease(folder, to_json(holder), 1h);
  const std::string message = refusal([&] { RunFolder run(folder.path()); });
  says(message, "process " + std::to_string(holder.process) + " on host " + holder.host);
  says(message, "which gave a sign of life 360");
  CHECK(parse_lease(test::bytes_of(folder / "lease.json")) == holder);
  CHECK(only_lease(folder));

  LeaseHolder earlier = holder;  // the same id, but another process
  earlier.start -= 1;
  write_lease(folder, to_json(earlier), 0s);
  CHECK_NOTHROW(RunFolder{folder.path()});

  write_lease(folder, to_json(holder), 0s);
  other.end();
  const RunFolder run(folder.path());
  CHECK(parse_lease(test::bytes_of(folder / "lease.json")) == this_holder());
  CHECK(only_lease(folder));
}

TEST_CASE("a lease from elsewhere is void after 60 s without renewal, by the file system's clock") {
  const ScratchFolder folder;
  for (const char* field : {"host", "boot", "namespace"}) {
    CAPTURE(field);
    LeaseHolder holder = this_holder();  // alive, but as far as can be seen from here, another one
    (field == std::string("host")   ? holder.host
     : field == std::string("boot") ? holder.boot
                                    : holder.pid_namespace) = "elsewhere";
    write_lease(folder, to_json(holder), 55s);
    says(refusal([&] { RunFolder run(folder.path()); }), "void 60 s after the last sign of life");
    write_lease(folder, to_json(holder), 61s);
    CHECK_NOTHROW(RunFolder{folder.path()});
    write_lease(folder, to_json(holder), -30s);
    refusal([&] { RunFolder run(folder.path()); });
    write_lease(folder, to_json(holder), -1h);
    CHECK_NOTHROW(RunFolder{folder.path()});
  }
}

TEST_CASE("an unreadable lease counts as one from elsewhere") {
  const ScratchFolder folder;
  LeaseHolder impossible = this_holder();
  impossible.process = -1;
  CHECK(is_void(impossible, this_holder(), 0s));
  std::string other_types = to_json(this_holder());
  other_types.replace(other_types.find("\"process\": "), 11, "\"process\": \"x\", \"p\": ");
  for (const std::string& text : {std::string(), std::string("{}"), std::string("[1, 2"),
                                  std::string("\xff\0{", 3), std::string(100000, '['), other_types}) {
    CHECK_FALSE(parse_lease(text).has_value());
    write_lease(folder, text, 30s);
    says(refusal([&] { RunFolder run(folder.path()); }), "its lease cannot be read");
    write_lease(folder, text, 61s);
    CHECK_NOTHROW(RunFolder{folder.path()});
  }
}

TEST_CASE("a lease that is no regular file is not waited for") {
  const ScratchFolder folder;
  REQUIRE(mkfifo((folder / "lease.json").c_str(), 0600) == 0);
  says(refusal([&] { RunFolder run(folder.path()); }), "lease.json is not a regular file");
  fs::remove(folder / "lease.json");
  test::write_bytes(folder / "target", "kept");
  fs::create_symlink("target", folder / "lease.json");
  says(refusal([&] { RunFolder run(folder.path()); }), "lease.json");
  CHECK(test::bytes_of(folder / "target") == "kept");
}

TEST_CASE("the same Slurm job takes the lease over at once, and the former holder notices") {
  const ScratchFolder folder;
  setenv("SLURM_JOB_ID", "4711", 1);
  std::optional<RunFolder> first;
  first.emplace(folder.path());
  {
    const RunFolder second(folder.path());
    CHECK_NOTHROW(second.confirm());
    const std::string message = refusal([&] { first->confirm(); });
    says(message, "was taken over by process " + std::to_string(getpid()));
    says(message, "(Slurm job 4711)");
    first.reset();  // must leave the other's lease alone
    CHECK_NOTHROW(second.confirm());
    setenv("SLURM_JOB_ID", "4712", 1);
    says(refusal([&] { RunFolder third(folder.path()); }), "Slurm job 4711");
  }
  unsetenv("SLURM_JOB_ID");
}

TEST_CASE("a lease that was deleted is taken anew, unless somebody else has it now") {
  const ScratchFolder folder;
  {
    const RunFolder run(folder.path());
    fs::remove(folder / "lease.json");
    CHECK_NOTHROW(run.confirm());
    CHECK(parse_lease(test::bytes_of(folder / "lease.json")) == this_holder());
    CHECK(only_lease(folder));
    CHECK_NOTHROW(run.confirm());
    fs::remove(folder / "lease.json");
    const OtherProcess other;
    write_lease(folder, to_json(other.holder()), 0s);
    says(refusal([&] { run.confirm(); }),
         "was taken over by process " + std::to_string(other.holder().process));
    write_lease(folder, "torn", 0s);  // that is nobody's for sure
    says(test::failure(ExitCode::failed, [&] { run.confirm(); }), "cannot be read");
    CHECK(test::bytes_of(folder / "lease.json") == "torn");
    fs::remove(folder / "lease.json");
    CHECK_NOTHROW(run.confirm());
  }
  CHECK_FALSE(fs::exists(folder / "lease.json"));  // given back, the new one, too
}

TEST_CASE("a folder that is gone for a moment is the same one afterwards") {
  const ScratchFolder folder;
  fs::create_directory(folder / "run");
  const RunFolder run(folder / "run");
  fs::rename(folder / "run", folder / "aside");
  says(test::failure(ExitCode::failed, [&] { run.confirm(); }),
       "the run folder " + (folder / "run") + " is gone");
  CHECK_FALSE(fs::exists(folder / "run"));
  fs::rename(folder / "aside", folder / "run");
  CHECK_NOTHROW(run.confirm());
  CHECK(fs::exists(folder / "run/lease.json"));
}

TEST_CASE("a lease that cannot be renewed is told, until it is renewed again") {
  const ScratchFolder folder;
  const RunFolder run(folder.path());
  setenv("GPT_FAULT", "lease.renew:throw@hit=2;lease.renew:throw@hit=3", 1);
  configure_faults(0);
  unsetenv("GPT_FAULT");
  CHECK_NOTHROW(run.confirm());
  for (int failures = 0; failures < 2; ++failures) {
    const std::string message = test::failure(ExitCode::failed, [&] { run.confirm(); });
    says(message, "cannot renew the lease " + (folder / "lease.json") + ": fault injected");
  }
  CHECK_NOTHROW(run.confirm());
}

TEST_CASE("a disk that does not take the lease refuses the start, and leaves nothing") {
  const ScratchFolder folder;
  {
    const test::Faults faults("lease.write:full");
    says(test::failure(ExitCode::failed, [&] { RunFolder run(folder.path()); }), "No space left on device");
  }
  CHECK(fs::is_empty(folder.path()));
  const RunFolder run(folder.path());
  {
    const test::Faults faults("lease.renew:full@hit=1;folder.write:ioerror@hit=1");
    says(test::failure(ExitCode::failed, [&] { run.confirm(); }), "No space left on device");
    says(test::failure(ExitCode::failed, [&] { run.write_text("text", "new"); }), "Input/output error");
  }
  CHECK_NOTHROW(run.confirm());
}

TEST_CASE("of many that find a void lease exactly one takes it") {
  const ScratchFolder folder;
  for (int round = 0; round < 20; ++round) {
    LeaseHolder gone = this_holder();
    gone.start -= 1;
    write_lease(folder, to_json(gone), 0s);
    std::atomic<int> taken{0}, refused{0}, ready{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        std::optional<Lease> lease;
        ++ready;
        while (ready < 8) std::this_thread::yield();
        try {
          lease.emplace(folder.path());
          ++taken;
        } catch (const Error&) {
          ++refused;
        }
        while (taken + refused < 8) std::this_thread::yield();
      });
    threads.clear();
    CHECK(taken == 1);
    CHECK(refused == 7);
  }
}

/// Starts a takeover that pauses between its judgement and its act, and does `meanwhile` in the pause.
std::string late_takeover(const ScratchFolder& folder, const std::function<void()>& meanwhile) {
  setenv("GPT_FAULT", "lease.takeover:delay=300@hit=1", 1);
  configure_faults(0);
  unsetenv("GPT_FAULT");
  std::string message;
  {
    const std::jthread late([&] { message = refusal([&] { RunFolder run(folder.path()); }); });
    std::this_thread::sleep_for(100ms);
    meanwhile();
  }
  return message;
}

TEST_CASE("a lease that changed between judgement and takeover is left alone") {
  const ScratchFolder folder;
  LeaseHolder other = this_holder();
  other.host = "elsewhere";

  SUBCASE("another process was faster") {
    write_lease(folder, to_json(other), 100s);
    std::optional<RunFolder> faster;
    says(late_takeover(folder, [&] { faster.emplace(folder.path()); }), "is in use by process");
    CHECK_NOTHROW(faster->confirm());
    CHECK(only_lease(folder));
  }
  SUBCASE("its holder woke up") {
    write_lease(folder, to_json(other), 100s);
    says(late_takeover(folder, [&] { utimensat(AT_FDCWD, (folder / "lease.json").c_str(), nullptr, 0); }),
         "on host elsewhere, which gave a sign of life 0 s ago");
    CHECK(parse_lease(test::bytes_of(folder / "lease.json")) == other);
    CHECK(only_lease(folder));
  }
}

TEST_CASE("small texts are replaced whole") {
  const ScratchFolder folder;
  const RunFolder run(folder.path());
  run.write_text("config.ini", "a = 1\n");
  run.write_text("config.ini", "");
  CHECK(test::bytes_of(folder / "config.ini").empty());
  run.write_text("config.ini", "b = 2\n");
  CHECK(test::bytes_of(folder / "config.ini") == "b = 2\n");
  CHECK_THROWS_AS(run.write_text("none/config.ini", "x"), Error);
  fs::remove(folder / "config.ini");
  CHECK(only_lease(folder));
}

TEST_CASE("a killed process leaves a lease that the next one takes over at once") {
  const ScratchFolder folder;
  CHECK_FALSE(test::run_alone("child: dies with a lease", "GPT_TEST_FOLDER='" + folder.path() + "'"));
  CHECK(fs::exists(folder / "lease.json"));
  CHECK_NOTHROW(RunFolder{folder.path()});
}

TEST_CASE("child: dies with a lease" * doctest::skip()) {
  const RunFolder run(std::getenv("GPT_TEST_FOLDER"));
  std::raise(SIGKILL);
}

}  // namespace
}  // namespace gpt
