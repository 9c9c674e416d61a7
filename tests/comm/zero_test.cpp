#include "comm/layouts.hpp"
#include "comm/shared_folder.hpp"
#include "comm/trainee.hpp"
#include "comm/world.hpp"
#include "support/run_alone.hpp"
#include "train/checkpoint.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace gpt {
namespace {

using test::Outcome;
using test::Trainee;
using test::TraineeOptions;

/// A Comm whose reduce_scatter gives the bits of its all_reduce. What is undefined afterwards, or before
/// all_gather has ended, is poison. Parts are divided over the first `owners` ranks of every `owners` ones,
/// as inside nodes of that size, or as `comm` does for 0.
class SameSums : public Comm {
public:
  SameSums(Comm& comm, int node) : comm_(comm), node_(node) {
    const int64_t count = comm.size() * alignment;
    int64_t parts = comm.owned(count).empty() ? 0 : 1;
    MPI_Allreduce(MPI_IN_PLACE, &parts, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    owners_ = node > 0 ? node : parts;
  }

  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::string name() const override { return "same sums by " + comm_.name(); }
  void all_reduce(Tensor out, Tensor in, Queue& queue) override { comm_.all_reduce(out, in, queue); }
  void reduce_scatter(Tensor data, Queue& queue) override {
    comm_.all_reduce(data, data, queue);
    queue.host([this, data] { poison(data); });
  }
  void all_gather(Tensor data, Queue& queue) override {
    queue.host([this, data] {
      poison(data);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    if (node_ == 0) return comm_.all_gather(data, queue);
    for (int owner = 0; owner < node_; ++owner)
      comm_.broadcast(data.flat({owner * part_size(data.size()), (owner + 1) * part_size(data.size())}),
                      owner, queue);
  }
  void broadcast(Tensor data, int root, Queue& queue) override { comm_.broadcast(data, root, queue); }
  void barrier(Queue& queue) override { comm_.barrier(queue); }
  Range owned(int64_t count) const override {
    if (node_ == 0) return comm_.owned(count);
    const int64_t index = rank() % node_;
    return {index * part_size(count), (index + 1) * part_size(count)};
  }
  bool is_first_owner() const override { return node_ == 0 ? comm_.is_first_owner() : rank() < node_; }

protected:
  int64_t owners() const override { return owners_; }

private:
  void poison(Tensor data) const {
    const Range mine = owned(data.size());
    const auto spoil = [&]<class Element>(Element* elements) {
      for (int64_t i = 0; i < tail(data.size()).begin; ++i)
        if (i < mine.begin || i >= mine.end) elements[i] = Element(std::numeric_limits<float>::quiet_NaN());
    };
    if (data.dtype() == DType::f32)
      spoil(data.data<float>());
    else
      spoil(data.data<bfloat16>());
  }

  Comm& comm_;
  int node_;
  int64_t owners_;
};

Outcome trained(Comm& comm, const TraineeOptions& options) {
  Trainee trainee(comm, options);
  trainee.train(4);
  return trainee.outcome();
}

std::unique_ptr<World> make_world(const std::string& layout) {
  int argc = 0;
  char** argv = nullptr;
  auto world = std::make_unique<World>(argc, argv);
  world->set_layout({layout});
  return world;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (a[i] - double{b[i]}) * (a[i] - double{b[i]});
  return std::sqrt(squares);
}

}  // namespace

TEST_CASE("sharded optimizer state gives the bits of whole state") {
  const auto world = make_world("");
  const auto agrees = [&](Comm& comm) {
    for (const int node : {0, 1, 2}) {
      if (node > 0 && comm.size() % node != 0) continue;
      SameSums same(comm, node);
      // Of the types one is enough for each size of buckets.
      for (TraineeOptions options :
           {TraineeOptions{.bucket_mb = 0.0, .checkpoint = {}},
            TraineeOptions{.bucket_mb = 0.02, .type = DType::bf16, .checkpoint = {}},
            TraineeOptions{.bucket_mb = 0.03, .type = DType::bf16, .stochastic = true, .checkpoint = {}},
            TraineeOptions{.bucket_mb = 25.0, .checkpoint = {}}}) {
        INFO(same.name(), ", parts in nodes of ", node, ", buckets of ", options.bucket_mb, " MiB");
        const Outcome whole = trained(same, options);
        options.sharded = true;
        const Outcome sharded = trained(same, options);
        CHECK(std::isfinite(sharded.norms.back()));
        CHECK(sharded.norms == whole.norms);
        CHECK(sharded.losses == whole.losses);
        CHECK(sharded.weights == whole.weights);
        CHECK(sharded.parts == whole.parts);
      }
    }
  };
  agrees(*make_mpi_comm(world->world()));
  for (const std::string& layout : test::layouts_for(world->size()))
    agrees(*make_hierarchical_comm(*make_world(layout)));
}

TEST_CASE("with every implementation's own reduce-scatter sharded state trains alike") {
  const auto world = make_world("");
  const auto agrees = [&](Comm& comm) {
    INFO(comm.name());
    const Outcome sharded = trained(comm, {.sharded = true, .checkpoint = {}}),
                  whole = trained(comm, {.sharded = false, .checkpoint = {}});
    // Their sums may be added in another order; with two terms there is none.
    if (comm.size() <= 2) CHECK(sharded == whole);
    CHECK(sharded.norms.front() == doctest::Approx(whole.norms.front()).epsilon(1e-5));
    CHECK(sharded.losses.back() == doctest::Approx(whole.losses.back()).epsilon(1e-4));
    // Every rank has the same weights.
    std::vector<float> first = sharded.weights;
    MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_FLOAT, 0, MPI_COMM_WORLD);
    CHECK(sharded.weights == first);
    CHECK(distance(sharded.weights, whole.weights) < 0.1);
  };
  agrees(*make_mpi_comm(world->world()));
  for (const std::string& layout : test::layouts_for(world->size())) {
    agrees(*make_hierarchical_comm(*make_world(layout)));
    // Shared out inside nodes: on uneven ones some ranks hold everything and others nothing.
    agrees(*make_hierarchical_comm(*make_world(layout), {.sharding = Sharding::node}));
  }
}

TEST_CASE("a rank holds moments only for what it updates, and in bf16 master weights") {
  const auto world = make_world("");
  const auto comm = make_mpi_comm(world->world());
  for (const DType type : {DType::f32, DType::bf16}) {
    INFO(name_of(type));
    const Trainee whole(*comm, {.bucket_mb = 25.0, .sharded = false, .type = type, .checkpoint = {}});
    const Trainee sharded(*comm, {.bucket_mb = 25.0, .sharded = true, .type = type, .checkpoint = {}});
    const Layout& layout = whole.layout();
    const int64_t elements = layout.size(), buckets = sharded.reducer().buckets().count();
    // Equal parts, and what does not divide into them.
    const int64_t most = elements / world->size() + world->size() * Comm::alignment * buckets;
    CHECK(whole.optimizer().state_bytes() == 8 * elements);
    CHECK(sharded.optimizer().state_bytes() <= 8 * most);
    CHECK((world->size() == 1 || sharded.optimizer().state_bytes() < 8 * elements));

    const int64_t rounded = type == DType::bf16 ? 2 * layout.matrices().size() : 0;
    CHECK(whole.weights().bytes() == 4 * elements + rounded);
    if (type == DType::f32)
      CHECK(sharded.weights().bytes() == whole.weights().bytes());
    else
      CHECK(sharded.weights().bytes() <= rounded + 4 * layout.vectors().size() + 4 * most);
  }
}

TEST_CASE("checkpoints are the same file with and without sharded state, and serve either") {
  for (const DType type : {DType::f32, DType::bf16}) {
    INFO(name_of(type));
    const auto world = make_world("");
    const auto comm = make_mpi_comm(world->world());
    SameSums same(*comm, 0);
    const test::SharedFolder folder(*world);
    CheckpointHeader header;
    header.step = 4;
    header.model = Trainee::config();
    header.tokenizer = "t";
    const auto save = [&](bool sharded) {
      Trainee trainee(same, {.sharded = sharded, .type = type, .checkpoint = {}});
      trainee.train(4);
      const std::string path = folder.path + (sharded ? "/sharded" : "/whole");
      save_checkpoint(path, header, trainee.layout(), trainee.saved_parts().state(), *world);
      return path + "/" + checkpoint_name(4);
    };
    const std::string sharded = save(true), whole = save(false);
    CHECK(test::bytes_of(sharded) == test::bytes_of(whole));

    // On these ranks, on fewer, and on one: what was loaded is what is in the file, and training goes on
    // alike.
    const auto resumed = [&](Comm& group, bool shards) {
      Trainee trainee(group, {.sharded = shards, .type = type, .checkpoint = sharded});
      const Outcome loaded = trainee.outcome();
      trainee.train(2);
      return std::pair{loaded, trainee.outcome()};
    };
    CHECK(resumed(same, true) == resumed(same, false));
    MPI_Comm rest = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, world->rank() == 0 ? 0 : 1, 0, &rest);
    {
      const auto fewer = make_mpi_comm(rest);
      const auto alone = make_mpi_comm(MPI_COMM_SELF);
      CHECK(resumed(*fewer, true).first == resumed(*fewer, false).first);
      CHECK(resumed(*alone, true) == resumed(*alone, false));
    }
    MPI_Comm_free(&rest);
  }
}

TEST_CASE("weights that were loaded are rounded as the update rounded them that made them") {
  const auto world = make_world("");
  const auto comm = make_mpi_comm(world->world());
  SameSums same(*comm, 0);
  for (const bool sharded : {false, true}) {
    INFO("sharded ", sharded);
    const test::SharedFolder folder(*world);
    TraineeOptions options{.sharded = sharded, .type = DType::bf16, .stochastic = true, .checkpoint = {}};
    Trainee straight(same, options);
    straight.train(4);
    CheckpointHeader header;
    header.step = 4;
    header.model = Trainee::config();
    header.tokenizer = "t";
    save_checkpoint(folder.path, header, straight.layout(), straight.saved_parts().state(), *world);
    const std::vector<float> saved = straight.outcome().weights;

    options.checkpoint = folder.path + "/" + checkpoint_name(4);
    options.step = 4;
    Trainee resumed(same, options);
    CHECK(resumed.outcome().weights == saved);
    straight.train(2);
    const Outcome expected = straight.outcome();  // waits for the weights on their way: both share the Comm
    resumed.train(2);
    const Outcome found = resumed.outcome();
    CHECK(found.parts == expected.parts);
    CHECK(found.weights == expected.weights);

    options.step = 5;
    CHECK(Trainee(same, options).outcome().weights != saved);
    options.stochastic = false;
    CHECK(Trainee(same, options).outcome().weights != saved);
  }
}

TEST_CASE("parts that cross blocks of the checkpoint are gathered whole") {
  const auto world = make_world("");
  const auto comm = make_mpi_comm(world->world());
  const auto device = make_cpu_device(1);
  const auto queue = device->make_queue();
  const Layout layout({.layers = 3, .heads = 4, .width = 256, .context = 33, .vocabulary = 777});
  const Buckets buckets(layout, int64_t{1} << 20);
  const std::vector<Range> updated = owned_parts(buckets, *comm).all_updated();
  std::vector<std::vector<float>> memory;
  DeviceState state{.name = "m", .shards = {}, .shared_out = true};
  for (const Range& range : updated) {
    std::vector<float>& values = memory.emplace_back();
    for (int64_t i = range.begin; i < range.end; ++i) values.push_back(static_cast<float>(i % 65521));
    state.shards.push_back({range, Tensor(values.data(), DType::f32, {range.size()})});
  }
  SavedParts saved({state}, layout, buckets, *comm, *device);
  saved.take({state}, *queue);
  saved.wait();
  const StateTensor& part = saved.state().front();
  const Range mine = checkpoint_part(layout, world->size(), world->rank());
  CHECK(part.first == mine.begin);
  REQUIRE(part.data.size() == mine.size());
  int64_t wrong = 0;
  for (int64_t i = 0; i < mine.size(); ++i)
    wrong += part.data.data<float>()[i] != static_cast<float>((mine.begin + i) % 65521);
  CHECK(wrong == 0);
}

}  // namespace gpt
