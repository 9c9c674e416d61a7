#include "train/device_choice.hpp"

#include "support/errors.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <set>
#include <string>
#include <vector>

using namespace gpt;
using test::failure;
using test::says;

namespace {

SeenGpus sees(std::vector<std::string> uuids, std::string host = "n0") {
  return {.host = std::move(host), .uuids = std::move(uuids), .why_none = {}};
}

SeenGpus sees_none(std::string host = "n0") {
  return {.host = std::move(host), .uuids = {}, .why_none = "no GPU is visible here"};
}

std::vector<int> indices(const std::string& asked, const std::vector<SeenGpus>& seen) {
  std::vector<int> result;
  for (const std::optional<int>& gpu : agree_on_devices(asked, seen).gpu_of_rank)
    result.push_back(gpu.value_or(-1));
  return result;
}

}  // namespace

TEST_CASE("ranks that see all GPUs of their node take them in turn") {
  const std::vector<std::string> node0 = {"a", "b", "c"}, node1 = {"d", "e", "f"};
  for (const char* asked : {"auto", "cuda"}) {
    CHECK(indices(asked, {sees(node0), sees(node0), sees(node0), sees(node1, "n1"), sees(node1, "n1")}) ==
          std::vector<int>{0, 1, 2, 0, 1});
    CHECK(indices(asked, {sees(node0), sees(node1, "n1"), sees(node0), sees(node1, "n1")}) ==
          std::vector<int>{0, 0, 1, 1});
  }
}

TEST_CASE("a rank that sees one GPU takes that, whatever its place on the node") {
  CHECK(indices("cuda", {sees({"a"}), sees({"b"}), sees({"c"})}) == std::vector<int>{0, 0, 0});
  CHECK(indices("cuda", {sees({"a", "b"}), sees({"c", "d"})}) == std::vector<int>{0, 0});
  // Numbered anew for each task, as some batch systems do it.
  CHECK(indices("cuda", {sees({"a", "b"}), sees({"b", "a"})}) == std::vector<int>{0, 0});
  CHECK(indices("cuda", {sees({"b", "a"}), sees({"b", "a"})}) == std::vector<int>{0, 1});
}

TEST_CASE("ranks make room for one that sees only what they have taken") {
  CHECK(indices("cuda", {sees({"a", "b"}), sees({"a"})}) == std::vector<int>{1, 0});
  CHECK(indices("cuda", {sees({"a", "b"}), sees({"b", "c"}), sees({"a"})}) == std::vector<int>{1, 1, 0});
  // Nobody moves without need.
  CHECK(indices("cuda", {sees({"a", "b", "c"}), sees({"a", "c"}), sees({"a", "b", "c"})}) ==
        std::vector<int>{0, 1, 1});
  const std::string message = failure(ExitCode::preflight, [&] {
    agree_on_devices("cuda", {sees({"a", "b"}), sees({"b", "a"}), sees({"a"})});
  });
  says(message, "rank 2 on n0 has no GPU of its own: of those that it sees, a by rank 0 (n0) is taken");
}

TEST_CASE("GPUs are given out whenever there is a way, and then each to one rank that sees it") {
  // Every way in which 3 ranks may see some of 3 GPUs, against trying all orders.
  constexpr int count = 3, masks = 1 << count;
  const std::vector<std::string> names = {"a", "b", "c"};
  int64_t with_a_way = 0;
  for (int all = 0; all < masks * masks * masks; ++all) {
    std::vector<SeenGpus> seen;
    std::vector<int> visible;
    for (int rank = 0, rest = all; rank < count; ++rank, rest /= masks) {
      visible.push_back(rest % masks);
      std::vector<std::string> uuids;
      for (int gpu = 0; gpu < count; ++gpu)
        if ((visible.back() >> gpu & 1) != 0) uuids.push_back(names[static_cast<size_t>(gpu)]);
      seen.push_back(sees(std::move(uuids)));
    }
    if (std::ranges::count(visible, 0) > 0) continue;
    std::vector<int> order = {0, 1, 2};
    bool is_possible = false;
    do {
      bool fits = true;
      for (size_t rank = 0; rank < order.size(); ++rank)
        fits = fits && (visible[rank] >> order[rank] & 1) != 0;
      is_possible = is_possible || fits;
    } while (!is_possible && std::ranges::next_permutation(order).found);
    with_a_way += is_possible ? 1 : 0;
    try {
      std::set<std::string> taken;
      const std::vector<int> given = indices("cuda", seen);
      for (size_t rank = 0; rank < given.size(); ++rank)
        taken.insert(seen[rank].uuids.at(static_cast<size_t>(given[rank])));
      REQUIRE(is_possible);
      REQUIRE(taken.size() == count);
    } catch (const Error&) {
      REQUIRE_FALSE(is_possible);
    }
  }
  CHECK(with_a_way == 247);  // (3,3) matrices of 0 and 1 with a permanent that is not 0
}

TEST_CASE("no GPU is taken twice: the message has ranks, host and UUID") {
  for (const char* asked : {"auto", "cuda"}) {
    const std::string message = failure(ExitCode::preflight, [&] {
      agree_on_devices(asked, {sees({"GPU-1"}), sees({"GPU-1"})});
    });
    says(message, "rank 1 on n0");
    says(message, "GPU-1 by rank 0 (n0)");
    says(message, "--gpu-bind=none");
    // Each rank in a container of its own, alone on its node as it seems.
    says(failure(ExitCode::preflight,
                 [&] {
                   agree_on_devices(asked, {sees({"GPU-1", "GPU-2"}, "pod0"), sees({"GPU-2"}, "pod1"),
                                            sees({"GPU-1", "GPU-2"}, "pod2")});
                 }),
         "rank 2 on pod2 has no GPU of its own: of those that it sees, GPU-1 by rank 0 (pod0), GPU-2 by rank "
         "1 "
         "(pod1) are taken");
  }
}

TEST_CASE("mixed ranks compute on the CPU together, loudly, unless cuda is asked for") {
  const std::vector<SeenGpus> mixed = {sees({"a"}), sees_none(), sees({"b"}), sees_none("n1")};
  const DeviceAgreement agreement = agree_on_devices("auto", mixed);
  for (const std::optional<int>& gpu : agreement.gpu_of_rank) CHECK_FALSE(gpu.has_value());
  says(agreement.notice, "ALL RANKS COMPUTE ON THE CPU");
  says(agreement.notice, "rank 1 on n0, rank 3 on n1");
  says(agreement.notice, "no GPU is visible here");
  const std::string message = failure(ExitCode::preflight, [&] { agree_on_devices("cuda", mixed); });
  says(message, "--device cuda: rank 1 on n0, rank 3 on n1 cannot: no GPU is visible here");
}

TEST_CASE("without any GPU auto is the CPU, silently, and cuda is refused") {
  const std::vector<SeenGpus> none = {sees_none(), sees_none()};
  CHECK(indices("auto", none) == std::vector<int>{-1, -1});
  CHECK(agree_on_devices("auto", none).notice.empty());
  says(failure(ExitCode::preflight, [&] { agree_on_devices("cuda", none); }), "ranks 0, 1 on n0 cannot");
}

TEST_CASE("cpu asks for nothing") {
  CHECK(indices("cpu", {sees({"a"}), sees({"a"})}) == std::vector<int>{-1, -1});
  CHECK(agree_on_devices("cpu", {sees({"a"}), sees_none()}).notice.empty());
}
