#include "comm/node_layout.hpp"

#include "base/error.hpp"

#include <doctest/doctest.h>
#include <string>
#include <vector>

namespace gpt {
namespace {

std::string refusal(std::string_view text, int ranks) {
  try {
    parse_node_layout(text, ranks);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::usage);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("node layouts are read as ranks per node or as a node for each rank") {
  CHECK(parse_node_layout("4", 4) == NodeOfRank{0, 0, 0, 0});
  CHECK(parse_node_layout("3,1", 4) == NodeOfRank{0, 0, 0, 1});
  CHECK(parse_node_layout("1,1,2", 4) == NodeOfRank{0, 1, 2, 2});
  CHECK(parse_node_layout("@0,1,0,1", 4) == NodeOfRank{0, 1, 0, 1});
  CHECK(parse_node_layout("@7,7,2", 3) == NodeOfRank{0, 0, 1});
  CHECK(parse_node_layout("1", 1) == NodeOfRank{0});
}

TEST_CASE("malformed node layouts are refused with their text") {
  for (const char* text :
       {"", ",", "3,", ",1", "3 1", "-1,5", "3,x", "@", "@0,", "0x4", "4,4294967297", "+4"}) {
    INFO("layout '", text, "'");
    CHECK(refusal(text, 4).find(std::string("'") + text + "'") != std::string::npos);
  }
}

TEST_CASE("node layouts that do not cover the job are refused with both numbers") {
  CHECK(refusal("3,2", 4) == "--node-layout '3,2' adds up to 5 ranks, but the job has 4");
  CHECK(refusal("3", 4) == "--node-layout '3' adds up to 3 ranks, but the job has 4");
  CHECK(refusal("@0,1", 4) == "--node-layout '@0,1' names a node for 2 ranks, but the job has 4");
  CHECK(refusal("2147483647,2147483647", 4).find("4294967294 ranks") != std::string::npos);
  CHECK(refusal("4,0", 4).find("without ranks") != std::string::npos);
}

TEST_CASE("a layout may split nodes but not join them") {
  const std::vector<std::string> hosts = {"a", "a", "b", "b"};
  const NodeOfRank found = {0, 0, 1, 1};
  CHECK_NOTHROW(validate_splits_only({0, 0, 1, 1}, found, hosts));
  CHECK_NOTHROW(validate_splits_only({0, 1, 2, 3}, found, hosts));
  CHECK_THROWS_WITH_AS(
      validate_splits_only({0, 1, 1, 2}, found, hosts),
      "--node-layout puts ranks 1 (a) and 2 (b) on one node, but they do not share memory: a layout "
      "may split nodes, never join them",
      Error);
}

TEST_CASE("a layout that separates ranks of one host is noticed") {
  CHECK(describe_split({0, 0, 1, 1}, {"a", "a", "b", "b"}).empty());
  CHECK(describe_split({0, 1, 2, 3}, {"a", "b", "b", "c"}) == "--node-layout splits host b into 2 nodes");
  CHECK(describe_split({0, 1, 2, 3, 4}, {"a", "a", "a", "b", "b"}) ==
        "--node-layout splits host a into 3 nodes, and 1 more host");
  CHECK(host_disagreement({0, 0, 1, 1}, {"a", "a", "b", "b"}).empty());
  CHECK(host_disagreement({0, 0, 0}, {"a", "a", "b"}).empty());
  CHECK(host_disagreement({0, 1, 2, 3}, {"a", "b", "b", "c"}) ==
        "the node layout disagrees with host names: ranks 1 and 2 are both on b, but stand on nodes 1 and 2");
}

TEST_CASE("places count ranks in world order on every node") {
  const NodeOfRank layout = {0, 1, 0, 1, 1};
  CHECK(place_of(0, layout) == NodePlace{.node = 0, .nodes = 2, .index = 0, .size = 2});
  CHECK(place_of(2, layout) == NodePlace{.node = 0, .nodes = 2, .index = 1, .size = 2});
  CHECK(place_of(4, layout) == NodePlace{.node = 1, .nodes = 2, .index = 2, .size = 3});
  CHECK(ranks_per_node(layout) == std::vector<int>{2, 3});
}

}  // namespace gpt
