#include "comm/layouts.hpp"
#include "comm/node_layout.hpp"
#include "comm/world.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace gpt {
namespace {

// The node of every rank ("@0,1,0,1") when the job runs on several hosts, from the rig that placed it; else
// null.
const char* placement() { return std::getenv("GPT_TEST_PLACEMENT"); }

}  // namespace

TEST_CASE("every host is a node" * doctest::skip(placement() == nullptr)) {
  int argc = 0;
  char** argv = nullptr;
  World world(argc, argv);
  world.set_layout({});
  const NodeOfRank layout = parse_node_layout(placement(), world.size());
  const NodePlace place = place_of(world.rank(), layout);
  CHECK(NodePlace{world.node_index(), world.nodes(), world.node_rank(), world.node_size()} == place);
  CHECK(world.local_rank() == place.index);
  CHECK(world.local_size() == place.size);
  CHECK(!world.pretended());
  CHECK(world.layout_disagreement().empty());

  const std::vector<std::string> hosts = world.gather(world.host());
  for (size_t a = 0; a < hosts.size(); ++a)
    for (size_t b = 0; b < a; ++b) CHECK((hosts[a] == hosts[b]) == (layout[a] == layout[b]));
}

TEST_CASE("hosts cannot be joined to one node" * doctest::skip(placement() == nullptr)) {
  int argc = 0;
  char** argv = nullptr;
  World world(argc, argv);
  CHECK_THROWS_AS(world.set_layout({std::to_string(world.size())}), SharedError);
}

}  // namespace gpt
