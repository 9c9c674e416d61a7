#include "train/saver.hpp"

#include "base/stopwatch.hpp"
#include "comm/comm.hpp"
#include "comm/shared_folder.hpp"
#include "support/errors.hpp"
#include "support/faults.hpp"
#include "support/scratch_folder.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace gpt {
namespace {

using test::failure;
using test::Faults;
using test::says;
using test::SharedFolder;

// Its state spans two blocks of 4 MiB: with several ranks some write nothing.
constexpr GptConfig model{.layers = 2, .heads = 4, .width = 256, .context = 33, .vocabulary = 777};

struct TestWorld : World {
  TestWorld() : TestWorld(0, nullptr) { set_layout({}); }

private:
  TestWorld(int argc, char** argv) : World(argc, argv) {}
};

/// A state on all ranks, and a saver of it into a folder of all.
struct Job {
  explicit Job(SaveSettings changes = {}) {
    for (const char* name : {"params", "m", "v"}) {
      values.emplace_back(*device, DType::f32, std::initializer_list<int64_t>{layout.size()});
      states.push_back(whole_state(name, values.back()));
    }
    fill(1.0F);
    changes.folder = folder.path;
    saver = std::make_unique<Saver>(world, world.duplicate(), changes, layout,
                                    SavedParts(states, layout, buckets, *comm, *device));
  }

  void fill(float first) {
    for (const TensorBuffer& tensor : values) {
      float* const data = tensor->data<float>();
      for (int64_t i = 0; i < layout.size(); ++i) data[i] = first + static_cast<float>(i % 4096);
    }
  }

  void begin(
      int64_t step, const std::function<void()>& confirm = [] {}) {
    CheckpointHeader header;
    header.step = step;
    header.run_id = 7;
    header.model = model;
    saver->begin(header, states, *queue, {}, confirm);
  }
  std::string file(int64_t step) const { return folder.path + "/" + checkpoint_name(step); }

  /// The first element of each tensor of the file.
  std::vector<float> firsts_of(int64_t step) const {
    std::vector<float> firsts;
    std::vector<StateReader> readers;
    for (const DeviceState& state : states)
      readers.push_back({state.name, [&](Range elements, Tensor block) {
                           if (elements.begin == 0) firsts.push_back(*block.data<float>());
                         }});
    read_state(file(step), layout, readers);
    return firsts;
  }

  TestWorld world;
  SharedFolder folder{world};
  std::unique_ptr<Comm> comm = make_mpi_comm(world.world());
  std::unique_ptr<Device> device = make_cpu_device(1);
  std::unique_ptr<Queue> queue = device->make_queue();
  const Layout layout{model};
  const Buckets buckets{layout, int64_t{1} << 20};
  std::vector<TensorBuffer> values;
  std::vector<DeviceState> states;
  std::unique_ptr<Saver> saver;
};

TEST_CASE("ranks go on while a duplicate world waits, and share its errors") {
  const TestWorld world;
  const std::unique_ptr<World> beside = world.duplicate();
  CHECK(beside->rank() == world.rank());
  CHECK(beside->size() == world.size());
  CHECK(beside->nodes() == world.nodes());
  std::string message;
  {
    const std::jthread other([&] {
      if (world.is_root()) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      beside->barrier();
      try {
        beside->everywhere([&] { validate(!world.is_root(), ExitCode::damaged, "the disk is gone"); });
      } catch (const SharedError& error) {
        message = error.what();
      }
    });
    for (int round = 0; round < 20; ++round) {
      CHECK(world.gather(std::to_string(world.rank())).size() == static_cast<size_t>(world.size()));
      world.everywhere([] {});
    }
  }
  says(message, "the disk is gone");
}

TEST_CASE("what is saved is the state when the save began, whatever happens to it meanwhile") {
  Job job;
  const Faults slow("save.write:delay=100", job.world.rank());
  for (const int64_t step : {1, 2}) {  // the copies' memory is used again
    const auto first = static_cast<float>(10 * step);
    job.fill(first);
    job.begin(step);
    CHECK(job.saver->under_way());
    CHECK(job.saver->step() == step);
    job.saver->protect(*job.queue);
    job.fill(-5.0F);
    const SaveEnd end = job.saver->wait();
    CHECK_FALSE(job.saver->under_way());
    CHECK(end.step == step);
    CHECK(end.failure.empty());
    CHECK(end.file == job.file(step));
    CHECK(end.seconds >= 0.1);
    job.world.barrier();
    CHECK(job.firsts_of(step) == std::vector<float>(3, first));
  }
}

TEST_CASE("begin does not wait for the disk, and wait does") {
  Job job;
  const Faults slow("save.open:delay=1000", job.world.rank());
  const Stopwatch watch;
  job.begin(1);
  CHECK_FALSE(job.saver->has_ended());
  CHECK(job.saver->wait().failure.empty());
  CHECK(watch.seconds() >= 1.0);
}

TEST_CASE("a save that failed on one rank failed on all, and the next one is another matter") {
  Job job;
  {
    const Faults fault("save.write:throw@rank=" + std::to_string(job.world.size() - 1), job.world.rank());
    job.begin(1);
    const SaveEnd end = job.saver->wait();
    says(end.failure, "fault injected at 'save.write'");
    for (const std::string& other : job.world.gather(end.failure)) CHECK(other == end.failure);
    CHECK_FALSE(std::filesystem::exists(job.file(1)));
  }
  job.begin(2);
  CHECK(job.saver->wait().failure.empty());
}

TEST_CASE("older checkpoints go when the new one was read back, and stay when it was not good") {
  Job job({.folder = {}, .keep = 1, .verify = true});
  job.begin(1);
  const SaveEnd first = job.saver->wait();
  CHECK(first.failure.empty());
  CHECK(first.verifying > 0);
  {
    const Faults fault("save.verify:throw@rank=0", job.world.rank());
    job.begin(2);
    const SaveEnd end = job.saver->wait();
    says(end.failure, "what was saved is not what the disk holds: ");
    CHECK(std::filesystem::exists(job.file(1)));
  }
  job.begin(3);
  CHECK(job.saver->wait().failure.empty());
  job.world.barrier();
  CHECK_FALSE(std::filesystem::exists(job.file(1)));
}

TEST_CASE("what the disk makes of a write is found by reading back, and what it refuses fails the save") {
  // Every rank's writes: some have no block to write.
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"save.write:flip", "is damaged"},
      {"save.write:short", "is damaged"},
      {"save.commit:flip", "commit record"},
      {"save.commit:short", "commit record"},
      {"save.write:full", "No space left on device"},
      {"save.reserve:full@hit=2", "No space left on device"},
      {"save.sync:ioerror", "Input/output error"},
      {"save.commit:full", "No space left on device"},
      {"save.rename:ioerror", "Input/output error"},
  };
  Job job({.folder = {}, .keep = 1, .verify = true});
  job.begin(1);
  CHECK(job.saver->wait().failure.empty());
  int64_t step = 1;
  for (const std::pair<std::string, std::string>& fault : faults) {
    CAPTURE(fault.first);
    const Faults injected(fault.first, job.world.rank());
    job.begin(++step);
    const SaveEnd end = job.saver->wait();
    says(end.failure, fault.second);
    job.world.barrier();
    CHECK_FALSE(std::filesystem::exists(job.file(step)));
    CHECK(std::filesystem::exists(job.file(1)));
  }
}

TEST_CASE("a retention that fails is no failed save") {
  Job job;
  const Faults fault("save.retire:throw", job.world.rank());
  job.begin(1);
  const SaveEnd end = job.saver->wait();
  CHECK(end.failure.empty());
  if (job.world.is_root()) says(end.notice, "fault injected at 'save.retire'");
}

TEST_CASE("nothing gets its name, and nothing is deleted, in a folder that is another job's by then") {
  Job job({.folder = {}, .keep = 1, .verify = true});
  job.begin(1);
  CHECK(job.saver->wait().failure.empty());
  // The root asks before the commit record, before the name, and before older ones go.
  for (const int taken_at : {1, 2, 3}) {
    CAPTURE(taken_at);
    int asked = 0;
    job.begin(2, [&] { validate(++asked < taken_at, ExitCode::usage, "taken over by another"); });
    const SaveEnd end = job.saver->wait();
    if (job.world.is_root()) CHECK(asked == taken_at);
    job.world.barrier();
    CHECK(std::filesystem::exists(job.file(1)));
    CHECK(end.failure.empty() == (taken_at == 3));
    CHECK(std::filesystem::exists(job.file(2)) == (taken_at == 3));
    if (taken_at < 3) {
      says(end.failure, "taken over by another");
      CHECK(std::filesystem::exists(job.file(2) + ".partial"));  // the name may be the other's by now
    } else if (job.world.is_root()) {
      says(end.notice, "taken over by another");
    }
  }
}

TEST_CASE("reading back finds a bit that is wrong, in the state and beside it") {
  Job job({.folder = {}, .keep = 9, .verify = false});
  const std::vector<std::string> names = {"params", "m", "v"};
  job.begin(1);
  CHECK(job.saver->wait().failure.empty());
  CHECK_NOTHROW(verify_saved(job.file(1), job.layout, names, job.world));
  const std::string whole = test::bytes_of(job.file(1));
  job.world.barrier();
  // In HDF5's own bytes, and in the middle of the file, which is state.
  for (const size_t at : {size_t{1000}, whole.size() / 2}) {
    CAPTURE(at);
    if (job.world.is_root()) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 4);
      test::write_bytes(job.file(1), damaged);
    }
    job.world.barrier();
    const std::string message =
        failure(ExitCode::damaged, [&] { verify_saved(job.file(1), job.layout, names, job.world); });
    CHECK_FALSE(message.empty());
    for (const std::string& other : job.world.gather(message)) CHECK(other == message);
  }
}

}  // namespace
}  // namespace gpt
