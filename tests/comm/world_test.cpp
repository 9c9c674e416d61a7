#include "comm/world.hpp"

#include "comm/layouts.hpp"
#include "comm/node_layout.hpp"
#include "comm/texts.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace gpt {
namespace {

struct TestWorld : World {
  TestWorld() : TestWorld(0, nullptr) {}

private:
  TestWorld(int argc, char** argv) : World(argc, argv) {}
};

std::optional<SharedError> error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const SharedError& error) {
    return error;
  }
  return {};
}

// How many ranks see `value`.
int ranks_with(bool value) {
  int mine = value ? 1 : 0, total = 0;
  MPI_Allreduce(&mine, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return total;
}

std::string text_of(int rank) {
  std::string text;
  for (int i = 0; i < rank * 37 % 101; ++i) text.push_back(static_cast<char>('a' + (i * i + rank) % 26));
  return text;
}

}  // namespace

TEST_CASE("everywhere does nothing when no rank fails") {
  const TestWorld world;
  int done = 0;
  CHECK(!error_of([&] { world.everywhere([&] { ++done; }); }));
  CHECK(done == 1);
}

TEST_CASE("everywhere brings one rank's failure to all, with rank, host and code") {
  const TestWorld world;
  for (int failing = 0; failing < world.size(); ++failing) {
    const auto error = error_of([&] {
      world.everywhere([&] { validate(world.rank() != failing, ExitCode::damaged, "the shard is damaged"); });
    });
    const bool right =
        error && error->code() == ExitCode::damaged &&
        (world.size() == 1
             ? error->what() == std::string("the shard is damaged")
             : error->rank() == failing && error->what() == fmt::format("rank {} on {}: the shard is damaged",
                                                                        failing, world.host()));
    CHECK(ranks_with(right) == world.size());
  }
}

TEST_CASE("everywhere takes the lowest of several failing ranks, and other exceptions too") {
  const TestWorld world;
  const int lowest = world.size() / 2;
  const auto error = error_of([&] {
    world.everywhere([&] {
      if (world.rank() >= lowest) throw std::runtime_error(fmt::format("no memory on {}", world.rank()));
    });
  });
  const bool right = error && error->code() == ExitCode::failed &&
                     std::string(error->what()).ends_with(fmt::format("no memory on {}", lowest));
  CHECK(ranks_with(right) == world.size());
}

TEST_CASE("everywhere adds nothing to a failure that all ranks share") {
  const TestWorld world;
  const auto error = error_of([&] { world.everywhere([] { validate(false, "--lr nan is not a number"); }); });
  CHECK(ranks_with(error && error->what() == std::string("--lr nan is not a number") &&
                   error->code() == ExitCode::usage && !error->rank()) == world.size());

  const auto nested = error_of([&] {
    world.everywhere([&] { world.everywhere([&] { validate(world.rank() != 0, "no dataset"); }); });
  });
  const std::string expected =
      world.size() == 1 ? "no dataset" : fmt::format("rank 0 on {}: no dataset", world.host());
  CHECK(ranks_with(nested && nested->what() == expected && (world.size() == 1 || nested->rank() == 0)) ==
        world.size());
}

TEST_CASE("collect gives the root every rank's text, one after the other, and an error once all have come") {
  TestWorld world;
  world.set_layout({});
  const std::unique_ptr<World> beside = world.duplicate();
  for (const World* const ranks : std::initializer_list<const World*>{&world, beside.get()}) {
    std::vector<std::string> all;
    ranks->collect(text_of(ranks->rank()), [&](std::string_view text) { all.emplace_back(text); });
    bool right = world.is_root() ? std::ssize(all) == world.size() : all.empty();
    for (size_t rank = 0; rank < all.size(); ++rank)
      right = right && all[rank] == text_of(static_cast<int>(rank));
    CHECK(ranks_with(right) == world.size());

    const auto error = error_of([&] {
      ranks->everywhere([&] {
        ranks->collect("text", [](std::string_view) { throw Error("no room", ExitCode::saving_failed); });
      });
    });
    CHECK(ranks_with(error && error->code() == ExitCode::saving_failed) == world.size());
  }
}

TEST_CASE("broadcast gives the root's text and gather gives all, in messages of any size") {
  const TestWorld world;
  std::string long_text;
  for (int i = 0; i < 300'000; ++i) long_text.push_back(static_cast<char>(i * 31 % 251));
  for (const std::string& text : {std::string(), std::string("x"), std::string("a\0b", 3), long_text}) {
    CHECK(world.broadcast(world.is_root() ? text : "something longer than nothing") == text);
    CHECK(broadcast_text(world.is_root() ? text : "", MPI_COMM_WORLD, 1000) == text);
  }
  const std::vector<std::string> plain = world.gather(text_of(world.rank()));
  const std::vector<std::string> in_rounds =
      gather_texts(text_of(world.rank()), MPI_COMM_WORLD, 5 * world.size());
  std::vector<std::string> expected;
  for (int rank = 0; rank < world.size(); ++rank) expected.push_back(text_of(rank));
  CHECK(plain == expected);
  CHECK(in_rounds == expected);
}

TEST_CASE("a layout gives node and peer communicators with the ranks it says") {
  for (const std::string& text : test::layouts_for(TestWorld().size())) {
    INFO("layout ", text);
    TestWorld world;
    world.set_layout({text});
    const NodeOfRank layout = parse_node_layout(text, world.size());
    const NodePlace place = place_of(world.rank(), layout);
    CHECK(NodePlace{world.node_index(), world.nodes(), world.node_rank(), world.node_size()} == place);
    CHECK(world.local_rank() == world.rank());
    CHECK(world.local_size() == world.size());
    CHECK(world.pretended() == (world.nodes() > 1));
    CHECK(world.layout_disagreement().empty());
    CHECK(world.layout_split() ==
          (world.nodes() == 1
               ? ""
               : fmt::format("--node-layout splits host {} into {} nodes", world.host(), world.nodes())));

    int node_rank = -1, node_size = -1, peers_rank = -1, peers_size = -1;
    MPI_Comm_rank(world.node(), &node_rank);
    MPI_Comm_size(world.node(), &node_size);
    MPI_Comm_rank(world.peers(), &peers_rank);
    MPI_Comm_size(world.peers(), &peers_size);
    CHECK(node_rank == place.index);
    CHECK(node_size == place.size);
    const std::vector<int> sizes = ranks_per_node(layout);
    const auto has_this_index = [&](int size) { return size > place.index; };
    CHECK(peers_size == std::ranges::count_if(sizes, has_this_index));
    CHECK(peers_rank == std::count_if(sizes.begin(), sizes.begin() + place.node, has_this_index));
  }
}

TEST_CASE("without a layout the ranks of this machine are one node") {
  TestWorld world;
  world.set_layout({});
  CHECK(world.nodes() == 1);
  CHECK(world.node_rank() == world.rank());
  CHECK(!world.pretended());
  CHECK(world.layout_disagreement().empty());
  CHECK(world.layout_split().empty());
}

TEST_CASE("layouts that do not fit are refused on every rank with the same words") {
  TestWorld world;
  for (const std::string& text : {fmt::format("{},1", world.size()), std::string("x"), std::string("@0,"),
                                  std::string("@"), std::string("1,,1"), fmt::format("0,{}", world.size())}) {
    const auto error = error_of([&] { world.set_layout({text}); });
    INFO("layout ", text);
    const bool right = error && error->code() == ExitCode::usage &&
                       error->what() == world.broadcast(error->what()) &&
                       std::string(error->what()).starts_with("--node-layout '" + text + "'");
    CHECK(ranks_with(right) == world.size());
  }
}

TEST_CASE("ranks that were given different layouts are refused") {
  TestWorld world;
  const int last = world.size() - 1;
  const auto error =
      error_of([&] { world.set_layout({world.rank() == last ? "@" : fmt::format("{}", world.size())}); });
  CHECK(ranks_with(error && error->code() == ExitCode::usage) == world.size());
}

TEST_CASE("the first ranks are a world of their own on the same nodes") {
  const TestWorld probe;
  for (const std::string& layout : test::layouts_for(probe.size())) {
    TestWorld world;
    world.set_layout({layout});
    for (int ranks = 1; ranks <= world.size(); ++ranks) {
      CAPTURE(layout);
      CAPTURE(ranks);
      const std::unique_ptr<World> part = world.first(ranks);
      CHECK((part != nullptr) == (world.rank() < ranks));
      if (!part) continue;
      CHECK(part->rank() == world.rank());
      CHECK(part->size() == ranks);
      CHECK(part->node_index() == world.node_index());
      CHECK(part->node_rank() == world.node_rank());
      int ones = 1;
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, &ones, 1, MPI_INT, MPI_SUM, part->node()));
      CHECK(ones == part->node_size());
      CHECK(part->gather(std::to_string(part->rank())).size() == static_cast<size_t>(ranks));
      const auto error = error_of([&] {
        part->everywhere([&] { validate(part->rank() != ranks - 1, "the last rank of the part fails"); });
      });
      CHECK((error && std::string(error->what()).find("the last rank") != std::string::npos));
    }
  }
}

}  // namespace gpt
