#include "comm/comm.hpp"
#include "comm/layouts.hpp"
#include "comm/shared_folder.hpp"
#include "support/errors.hpp"
#include "support/faults.hpp"
#include "support/scratch_folder.hpp"
#include "train/buckets.hpp"
#include "train/node_checkpoint_folder.hpp"
#include "train/node_checkpoint_load.hpp"
#include "train/node_saver.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace gpt {
namespace {

using test::Faults;
using test::says;
using test::SharedFolder;

// Its state spans two blocks of 4 MiB: with several ranks some read and write nothing.
constexpr GptConfig model{.layers = 2, .heads = 4, .width = 256, .context = 33, .vocabulary = 777};

/// A state on all ranks, and what keeps it in a folder for each node.
struct Job {
  explicit Job(const World& all) : world(all) {
    for (const char* name : {"params", "m", "v"}) {
      values.emplace_back(*device, DType::f32, std::initializer_list<int64_t>{layout.size()});
      states.push_back(whole_state(name, values.back()));
    }
    const Range part = checkpoint_part(layout, world.node_size(), world.node_rank());
    const std::string base = base_of(world.node_index());
    saver = std::make_unique<NodeSaver>(
        world.duplicate_node(), NodeCheckpointPlace{.base = base, .folder = base + "/start", .kept = {}},
        layout, SavedParts(states, part, buckets, *comm, *device));
  }

  std::string base_of(int node) const { return folder.path + "/node" + std::to_string(node); }
  std::string file(int node, int64_t step) const { return base_of(node) + "/start/" + checkpoint_name(step); }

  void fill(float first) {
    for (const TensorBuffer& tensor : values) {
      float* const data = tensor->data<float>();
      for (int64_t i = 0; i < layout.size(); ++i) data[i] = first + static_cast<float>(i % 4096);
    }
  }

  bool holds(float first) const {
    return std::ranges::all_of(values, [&](const TensorBuffer& tensor) {
      const float* const data = tensor->data<float>();
      for (int64_t i = 0; i < layout.size(); ++i)
        if (data[i] != first + static_cast<float>(i % 4096)) return false;
      return true;
    });
  }

  NodeSaveEnd save(int64_t step) {
    CheckpointHeader header;
    header.step = step;
    header.run_id = 7;
    header.model = model;
    saver->take(states, *queue);
    return saver->save(header);
  }

  const World& world;
  SharedFolder folder{world};
  std::unique_ptr<Comm> comm = make_mpi_comm(world.world());
  std::unique_ptr<Device> device = make_cpu_device(1);
  std::unique_ptr<Queue> queue = device->make_queue();
  const Layout layout{model};
  const Buckets buckets{layout, int64_t{1} << 20};
  std::vector<TensorBuffer> values;
  std::vector<DeviceState> states;
  std::unique_ptr<NodeSaver> saver;
};

int ranks_of_job() {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

TEST_CASE("every node keeps the newest two of the whole state, and gives them to all") {
  int argc = 0;
  char** argv = nullptr;
  for (const std::string& layout : test::layouts_for(ranks_of_job())) {
    INFO(layout);
    World world(argc, argv);
    world.set_layout({layout});
    Job job(world);
    for (const int64_t step : {1, 2, 3}) {
      job.fill(static_cast<float>(10 * step));
      CHECK(job.save(step).failure.empty());
    }
    world.barrier();
    const std::string first = test::bytes_of(job.file(0, 3));
    for (int node = 0; node < world.nodes(); ++node) {
      CHECK_FALSE(std::filesystem::exists(job.file(node, 1)));
      CHECK(std::filesystem::exists(job.file(node, 2)));
      CHECK(test::bytes_of(job.file(node, 3)) == first);
      CHECK(is_own_folder(job.base_of(node)));
    }
    for (int node = 0; node < world.nodes(); ++node) {
      job.fill(-1.0F);
      load_from_node(world, node, job.file(node, 3), job.layout, job.states, *job.queue);
      CHECK(job.holds(30.0F));
    }
  }
}

TEST_CASE("a node that cannot save leaves the others alone, and keeps what it had") {
  int argc = 0;
  char** argv = nullptr;
  for (const std::string& layout : test::layouts_for(ranks_of_job())) {
    INFO(layout);
    World world(argc, argv);
    world.set_layout({layout});
    Job job(world);
    job.fill(1.0F);
    CHECK(job.save(1).failure.empty());
    {
      const Faults fault("save.write:throw@rank=0", world.rank());
      const NodeSaveEnd end = job.save(2);
      CHECK(end.failure.empty() == (world.node_index() != 0));
      if (world.node_index() == 0) says(end.failure, "fault injected at 'save.write'");
    }
    world.barrier();
    CHECK(std::filesystem::exists(job.file(world.node_index(), 1)));
    CHECK(std::filesystem::exists(job.file(world.node_index(), 2)) == (world.node_index() != 0));
    world.barrier();  // the next save deletes what others still look at
    CHECK(job.save(3).failure.empty());
  }
}

TEST_CASE("nodes of one host have slots of their own") {
  int argc = 0;
  char** argv = nullptr;
  for (const std::string& layout : test::layouts_for(ranks_of_job())) {
    INFO(layout);
    World world(argc, argv);
    world.set_layout({layout});
    const NodeSlot slot = node_slot(world);
    const std::vector<std::string> slots =
        world.gather(world.host() + " " + std::to_string(slot.index) + (slot.last ? " last" : ""));
    const std::vector<std::string> nodes = world.gather(std::to_string(world.node_index()));
    for (size_t a = 0; a < slots.size(); ++a)
      for (size_t b = 0; b < a; ++b) CHECK((slots[a] == slots[b]) == (nodes[a] == nodes[b]));
    const auto own_host = [&](const std::string& text) { return text.starts_with(world.host() + " "); };
    CHECK(std::ranges::any_of(slots,
                              [&](const auto& text) { return own_host(text) && text.ends_with("last"); }));
  }
}

}  // namespace
}  // namespace gpt
