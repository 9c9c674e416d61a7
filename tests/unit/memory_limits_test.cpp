#include "train/memory_limits.hpp"

#include "support/scratch_folder.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <set>
#include <string>
#include <sys/resource.h>

using namespace gpt;

namespace {

/// A file system with what a system says about memory.
class Files {
public:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_ / path;
    std::filesystem::create_directories(file.parent_path());
    test::write_bytes(file, text);
  }
  std::vector<MemoryPool> pools(int64_t given_back = 0) const {
    return system_pools(folder_.path(), "n1", given_back);
  }

  /// Version 2, this process in the group.
  void unified(const std::string& group, const std::string& top = "/") {
    write("proc/self/cgroup", "0::" + group + "\n");
    write("proc/self/mountinfo",
          "22 1 0:21 / /proc rw,nosuid - proc proc rw\n"
          "31 1 0:26 " +
              top + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void group(const std::string& folder, const std::string& limit, int64_t used, int64_t cache) {
    write("sys/fs/cgroup" + folder + "/memory.max", limit + "\n");
    write("sys/fs/cgroup" + folder + "/memory.current", std::to_string(used) + "\n");
    write("sys/fs/cgroup" + folder + "/memory.stat",
          "anon 12\ninactive_file " + std::to_string(cache) + "\nactive_file 1\n");
  }

private:
  test::ScratchFolder folder_;
};

}  // namespace

TEST_CASE("the machine's memory is what it calls available") {
  Files files;
  CHECK(files.pools().empty());
  files.write("proc/meminfo", "MemTotal:       2000 kB\nMemFree:         10 kB\nMemAvailable:    900 kB\n");
  const std::vector<MemoryPool> pools = files.pools();
  REQUIRE(pools.size() == 1);
  CHECK(pools[0].name == "MemAvailable of /proc/meminfo on host n1");
  CHECK(pools[0].total == 2000 * 1024);
  CHECK(pools[0].available == 900 * 1024);
  CHECK(files.pools(5000)[0].available == 900 * 1024 + 5000);
}

TEST_CASE("of control groups the process's own and those around it count, without file caches") {
  Files files;
  files.unified("/job/step");
  files.group("", "max", 0, 0);
  files.group("/job", "1000000", 400000, 99999);
  files.group("/job/step", "600000", 900000, 0);  // a limit that was lowered is exceeded for a while
  files.group("/other", "10", 0, 0);
  const std::vector<MemoryPool> pools = files.pools();
  REQUIRE(pools.size() == 2);
  CHECK(pools[0].name == "control group limit /sys/fs/cgroup/job/step/memory.max on host n1");
  CHECK(pools[0].total == 600000);
  CHECK(pools[0].available == 0);
  CHECK(pools[1].name == "control group limit /sys/fs/cgroup/job/memory.max on host n1");
  CHECK(pools[1].total == 1000000);
  CHECK(pools[1].available == 1000000 - 400000 + 100000);
  CHECK(pools[0].key != pools[1].key);
}

TEST_CASE("where a group is slowed down it ends, too") {
  Files files;
  files.unified("/job");
  files.group("/job", "1000000", 0, 0);
  files.write("sys/fs/cgroup/job/memory.high", "800000\n");
  const std::vector<MemoryPool> pools = files.pools();
  REQUIRE(pools.size() == 1);
  CHECK(pools[0].name == "control group limit /sys/fs/cgroup/job/memory.high on host n1");
  CHECK(pools[0].total == 800000);
}

TEST_CASE("inside a container its own group stands where groups are mounted") {
  for (const auto& [group, top] : {std::pair{"/", "/"},  // a name space of its own
                                   std::pair{"/docker/abc", "/docker/abc"}, std::pair{"/../abc", "/"},
                                   std::pair{"/elsewhere", "/docker/abc"}}) {
    CAPTURE(group);
    Files files;
    files.unified(group, top);
    files.group("", "1000000", 0, 0);
    const std::vector<MemoryPool> pools = files.pools();
    REQUIRE(pools.size() == 1);
    CHECK(pools[0].name == "control group limit /sys/fs/cgroup/memory.max on host n1");
  }
  Files files;
  files.unified("/docker/abc/inner", "/docker/abc");
  files.group("/inner", "1000000", 0, 0);
  CHECK(files.pools().size() == 1);
}

TEST_CASE("control groups of version 1 have limits of another name") {
  Files files;
  files.write("proc/self/cgroup", "9:cpu,cpuacct:/a\n4:memory:/slurm/job_7\n0::/unified\n");
  files.write("proc/self/mountinfo",
              "32 1 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
              "35 1 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  const std::string folder = "sys/fs/cgroup/memory";
  files.write(folder + "/memory.limit_in_bytes", "9223372036854771712\n");
  files.write(folder + "/slurm/job_7/memory.limit_in_bytes", "5000000\n");
  files.write(folder + "/slurm/job_7/memory.usage_in_bytes", "3000000\n");
  files.write(folder + "/slurm/job_7/memory.stat",
              "cache 5\ninactive_file 1\ntotal_inactive_file 1000\ntotal_active_file 500\n");
  const std::vector<MemoryPool> pools = files.pools();
  REQUIRE(pools.size() == 1);
  CHECK(pools[0].name ==
        "control group limit /sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes on host n1");
  CHECK(pools[0].available == 5000000 - 3000000 + 1500);
}

TEST_CASE("ranks on one machine draw from the same memory, whatever their containers call it") {
  Files one, other;
  for (Files* files : {&one, &other}) {
    files->write("proc/meminfo", "MemTotal: 2 kB\nMemAvailable: 1 kB\n");
    files->write("proc/sys/kernel/random/boot_id", "82d249df\n");
    files->unified("/");
    files->group("", "1000000", 0, 0);
  }
  CHECK(one.pools()[0].key == other.pools()[0].key);
  CHECK(one.pools()[1].key != other.pools()[1].key);  // groups of their own
  other.write("proc/sys/kernel/random/boot_id", "f00\n");
  CHECK(one.pools()[0].key != other.pools()[0].key);
}

TEST_CASE("files that make no sense limit nothing") {
  Files files;
  files.write("proc/meminfo", "MemAvailable: many\nMemTotal\n");
  files.write("proc/self/cgroup", "nonsense\n0:\n::\n");
  files.write("proc/self/mountinfo", "- \n31 1 0:26 / /sys/fs/cgroup rw - cgroup2\n - cgroup2 x y\n");
  CHECK(files.pools().empty());
  files.unified("nonsense");
  CHECK(files.pools().empty());
  files.unified("/job");
  files.write("sys/fs/cgroup/job/memory.max", "lots\n");
  CHECK(files.pools().empty());
}

TEST_CASE("limits of the process are those that are set") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  const auto names = [] {
    std::set<std::string> all;
    for (const MemoryPool& pool : process_pools("rank 3")) all.insert(pool.key);
    return all;
  };
  const std::string name = "rank 3 RLIMIT_AS (ulimit -v)";
  if (before.rlim_cur == RLIM_INFINITY) CHECK_FALSE(names().contains(name));
  const rlimit lower{.rlim_cur = rlim_t{1} << 46, .rlim_max = before.rlim_max};
  if (before.rlim_max < lower.rlim_cur) return;
  REQUIRE(setrlimit(RLIMIT_AS, &lower) == 0);
  const std::vector<MemoryPool> pools = process_pools("rank 3");
  setrlimit(RLIMIT_AS, &before);
  const auto found = std::ranges::find(pools, name, &MemoryPool::key);
  REQUIRE(found != pools.end());
  CHECK(found->total == int64_t{1} << 46);
  CHECK(found->available < found->total);
  CHECK(found->available > 0);
}
