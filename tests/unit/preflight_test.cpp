#include "train/preflight.hpp"

#include "base/exit_code.hpp"
#include "train/preflight_clock.hpp"
#include "train/preflight_finding.hpp"
#include "train/preflight_gpu.hpp"
#include "train/preflight_look.hpp"
#include "train/preflight_network.hpp"
#include "train/preflight_odd.hpp"
#include "train/preflight_report.hpp"
#include "train/preflight_space.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace gpt;

namespace {

std::vector<int> nodes_in(const Findings& findings) {
  std::vector<int> nodes;
  for (const Finding& finding : findings) nodes.push_back(finding.node.value_or(-1));
  return nodes;
}

using Nodes = std::vector<int>;

std::vector<ClockReading> clocks(const std::vector<double>& ahead, double uncertainty = 1e-5) {
  std::vector<ClockReading> readings;
  for (const double seconds : ahead) readings.push_back({.ahead = seconds, .uncertainty = uncertainty});
  return readings;
}

std::vector<NodeBandwidth> between(const std::vector<double>& speeds) {
  std::vector<NodeBandwidth> bandwidths;
  for (const double speed : speeds) bandwidths.push_back({.inside = {}, .between = speed});
  return bandwidths;
}

SeenGpus sees(std::vector<std::string> uuids) {
  return {.host = "n", .uuids = std::move(uuids), .why_none = "there is none"};
}

}  // namespace

TEST_CASE("a clock that is off is found, rank 0's too") {
  CHECK(judge_clocks(clocks({0, 0.5, -1.5, 0})).empty());
  CHECK(nodes_in(judge_clocks(clocks({0, 0.1, 30, -0.1}))) == Nodes{2});
  CHECK(nodes_in(judge_clocks(clocks({0, -30, 0.1, 0.2}))) == Nodes{1});
  CHECK(nodes_in(judge_clocks(clocks({0, 30, 30.1, 30.2}))) == Nodes{0});
  CHECK(nodes_in(judge_clocks(clocks({0, 30}))) == Nodes{1});  // of two, the one without rank 0
  CHECK(nodes_in(judge_clocks(clocks({0, 30, 0, 30}))) == Nodes{1, 3});
  CHECK(nodes_in(judge_clocks(clocks({0, -30, 0, -30}))) == Nodes{1, 3});
  CHECK(judge_clocks(clocks({0})).empty());
  CHECK(judge_clocks({}).empty());
  const Findings ahead = judge_clocks(clocks({0, 0, 30})), behind = judge_clocks(clocks({0, 0, -30}));
  CHECK(ahead.front().reason.find("30.0 s ahead of") != std::string::npos);
  CHECK(behind.front().reason.find("30.0 s behind") != std::string::npos);
}

TEST_CASE("a message that took long says nothing of a clock") {
  CHECK(judge_clocks(clocks({0, 5, 0}, 4.0)).empty());
  CHECK(nodes_in(judge_clocks(clocks({0, 5, 0}, 1.0))) == Nodes{1});
}

TEST_CASE("the value of most ranks is the right one") {
  const std::vector<int> nodes = {0, 0, 1, 1, 2, 2};
  CHECK(find_odd("c", "it", {"a", "a", "a", "a", "a", "a"}, nodes).empty());
  CHECK(nodes_in(find_odd("c", "it", {"a", "a", "b", "a", "a", "a"}, nodes)) == Nodes{1});
  CHECK(nodes_in(find_odd("c", "it", {"b", "b", "a", "a", "a", "a"}, nodes)) == Nodes{0, 0});
  CHECK(nodes_in(find_odd("c", "it", {"z", "z", "z", "a", "a", "a"}, nodes)) == Nodes{1, 2, 2});  // rank 0's
  CHECK(nodes_in(find_odd("c", "it", {"a", "a", "", "", "b", "a"}, nodes)) == Nodes{2});
  CHECK(find_odd("c", "it", {"", "", "", "", "", ""}, nodes).empty());
  const Findings odd = find_odd("c", "the version", {"1", "2", "1"}, {0, 1, 2});
  CHECK(odd ==
        Findings{{.node = 1, .check = "c", .reason = "the version of rank 1 is 2, on most ranks it is 1"}});
}

TEST_CASE("what is wrong on every node is no node's fault") {
  const Finding first{.node = 0, .check = "disk", .reason = "full"};
  const Finding second{.node = 1, .check = "disk", .reason = "also full"};
  const Finding clock{.node = 1, .check = "clock", .reason = "late"};
  CHECK(settle({first, clock}, 2) == Findings{first, clock});
  const Findings shared = settle({first, second, clock}, 2);
  REQUIRE(shared.size() == 2);
  CHECK(shared[0].node == std::nullopt);
  CHECK(shared[0].reason.find("full") != std::string::npos);
  CHECK(shared[1] == clock);
  CHECK(settle({first, first}, 2) == Findings{first});  // two ranks of a node are one node
  CHECK(nodes_in(settle({first}, 1)) == Nodes{-1});
  CHECK(settle({}, 3).empty());
}

TEST_CASE("every node meets others, two at a time") {
  for (int nodes = 2; nodes <= 9; ++nodes)
    for (int round = 0; round < nodes + nodes % 2 - 1; ++round)
      for (int node = 0; node < nodes; ++node) {
        const std::optional<int> partner = partner_of(node, nodes, round);
        if (!partner) {
          CHECK(nodes % 2 == 1);
          continue;
        }
        CHECK(*partner != node);
        CHECK((*partner >= 0 && *partner < nodes));
        CHECK(partner_of(*partner, nodes, round) == node);
      }
  for (const int nodes : {4, 5, 8}) {
    std::set<int> met;
    for (int round = 0; round < measured_partners; ++round)
      if (const std::optional<int> partner = partner_of(1, nodes, round)) met.insert(*partner);
    CHECK(static_cast<int>(met.size()) >= measured_partners - nodes % 2);
  }
}

TEST_CASE("a node that is far slower than the median is found") {
  CHECK(judge_bandwidth(between({10, 9, 4, 11}), 4.0).empty());
  CHECK(nodes_in(judge_bandwidth(between({10, 9, 1, 11}), 4.0)) == Nodes{2});
  CHECK(nodes_in(judge_bandwidth(between({1, 9, 10}), 4.0)) == Nodes{0});
  CHECK(judge_bandwidth(between({10, 9, 1, 11}), 0.0).empty());
  CHECK(judge_bandwidth(between({1}), 4.0).empty());
  std::vector<NodeBandwidth> inside = {{.inside = 5.0, .between = {}},
                                       {.inside = 0.5, .between = {}},
                                       {.inside = {}, .between = {}},
                                       {.inside = 6.0, .between = {}}};
  CHECK(nodes_in(judge_bandwidth(inside, 4.0)) == Nodes{1});
  inside[2].wrong_sums = {"sums with node 0 are wrong"};
  CHECK(nodes_in(judge_bandwidth(inside, 0.0)) == Nodes{2});
}

TEST_CASE("room and the right to write are looked at where a folder will be") {
  const std::string top = std::filesystem::temp_directory_path().string();
  const Space space = look_at_space(top + "/gpt-preflight-test/not/there");
  CHECK(std::filesystem::equivalent(space.folder, top));
  CHECK_FALSE(std::filesystem::exists(top + "/gpt-preflight-test"));
  CHECK(space.total > 0);
  CHECK(judge_space(0, "disk", "a checkpoint", space, space.total + 1).size() == 1);
  CHECK(judge_space(0, "disk", "a checkpoint", {.folder = "/x", .free = 10, .total = 20, .problem = {}}, 10)
            .empty());
  const Findings full = judge_space(3, "disk", "a checkpoint",
                                    {.folder = "/x", .free = 0, .total = 1 << 20, .problem = {}}, 1 << 10);
  CHECK(nodes_in(full) == Nodes{3});
  CHECK(full.front().reason.find("/x has 0.0 MB free") != std::string::npos);
  CHECK(
      judge_space(0, "disk", "", {.folder = "/x", .free = 10, .writable = false, .problem = {}}, 1).size() ==
      1);
  CHECK(judge_space(0, "disk", "", {.folder = "/x", .free = 10, .problem = "no answer"}, 1).size() == 1);
}

TEST_CASE("nodes without a GPU are named where most have one, or all must") {
  const std::vector<int> nodes = {0, 1, 2};
  const std::vector<SeenGpus> one_blind = {sees({"a"}), sees({}), sees({"c"})};
  CHECK(nodes_in(judge_gpus("auto", one_blind, nodes).findings) == Nodes{1});
  CHECK(nodes_in(judge_gpus("cuda", one_blind, nodes).findings) == Nodes{1});
  CHECK(judge_gpus("cpu", one_blind, nodes).findings.empty());
  const std::vector<SeenGpus> one_sees = {sees({"a"}), sees({}), sees({})};
  const GpuJudgment on_cpus = judge_gpus("auto", one_sees, nodes);
  CHECK(on_cpus.findings.empty());
  CHECK_FALSE(on_cpus.notice.empty());
  CHECK(on_cpus.gpu_of_rank == std::vector<std::optional<int>>(3));
  CHECK(nodes_in(judge_gpus("cuda", one_sees, nodes).findings) == Nodes{1, 2});
  const GpuJudgment all = judge_gpus("auto", {sees({"a"}), sees({"b"}), sees({"c"})}, nodes);
  CHECK(all.findings.empty());
  CHECK(all.gpu_of_rank == std::vector<std::optional<int>>{0, 0, 0});
  CHECK(nodes_in(judge_gpus("cuda", {sees({"a"}), sees({"a"}), sees({"c"})}, nodes).findings) == Nodes{-1});
}

TEST_CASE("what a rank found arrives as it was") {
  RankLook look;
  look.name = "n1";
  look.fingerprint = "00ff";
  look.memory = {.bytes = 7, .pools = {{.key = "k", .name = "m", .total = 9, .available = 8}}};
  look.checkpoint_bytes = 12;
  look.run = {.folder = "/runs", .free = 1, .total = 2, .writable = false, .problem = "none"};
  look.gpu.uuid = "GPU-1";
  look.gpu.status.celsius = 60.0;
  look.bandwidth = {.inside = {}, .between = 2.5, .wrong_sums = {"w"}};
  const RankLook same = look_from_text(to_text(look));
  CHECK(to_text(same) == to_text(look));
  CHECK(same.run.problem == "none");
  CHECK(same.gpu.status.celsius == 60.0);
  CHECK(same.gpu.status.watts == std::nullopt);
  CHECK(same.bandwidth.inside == std::nullopt);
  CHECK(same.memory.pools.front().available == 8);
  CHECK_THROWS_AS(look_from_text("{}"), Error);
}

TEST_CASE("a report names a node once, for people and for scripts") {
  PreflightReport report;
  report.nodes.resize(2);
  report.nodes[0].name = "n0";
  report.nodes[1].name = "n1";
  for (int rank = 0; rank < 4; ++rank) report.nodes[static_cast<size_t>(rank / 2)].ranks.push_back(rank);
  CHECK(report.code() == ExitCode::finished);
  CHECK(lines_of(report).size() == 3);
  report.findings = {{.node = 1, .check = "clock", .reason = "late"},
                     {.node = 1, .check = "disk", .reason = "full"},
                     {.node = {}, .check = "options", .reason = "no"}};
  CHECK(report.code() == ExitCode::preflight);
  const std::vector<std::string> lines = lines_of(report);
  CHECK(lines.size() == 6);
  CHECK(lines[2].find("refused") != std::string::npos);
  CHECK(lines[1].find("refused") == std::string::npos);
  CHECK(std::ranges::count(lines, "refused: node 1 (n1): clock: late") == 1);
  const std::string line = machine_line(report);
  REQUIRE(line.starts_with(preflight_mark));
  const auto json = nlohmann::json::parse(line.substr(std::string(preflight_mark).size()));
  CHECK(json.at("exit_code") == 14);
  CHECK(json.at("exclude") == nlohmann::json::array({"n1"}));
  CHECK(json.at("problems").size() == 3);
  CHECK(json.at("nodes").at(1).at("ranks") == nlohmann::json::array({2, 3}));
  const std::string silent = machine_line(std::optional<std::string>("n1"), "answer", "it is silent");
  CHECK(nlohmann::json::parse(silent.substr(std::string(preflight_mark).size())).at("exclude") ==
        nlohmann::json::array({"n1"}));
}

TEST_CASE("a preflight check never waits for longer than a minute") {
  CHECK(preflight_timeout(300.0) == 60.0);
  CHECK(preflight_timeout(0.0) == 60.0);
  CHECK(preflight_timeout(5.0) == 5.0);
}
