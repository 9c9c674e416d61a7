#include "bench/peers_report.hpp"

#include "bench/times_json.hpp"
#include "model/precision.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>

namespace gpt {

std::string PeerRow::best() const {
  const auto least =
      std::ranges::min_element(peers, {}, [](const auto& peer) { return peer.second.least(); });
  return least == peers.end() ? "" : least->first;
}

double PeerRow::ratio() const { return peers.at(best()).least() / own.least(); }

void print_peers_head(const std::vector<std::string>& kinds) {
  fmt::print("{:<24} {:>12}", "least step, ms", "gpt_mpi");
  for (const std::string& kind : kinds) fmt::print(" {:>12}", kind);
  fmt::print("  best / gpt_mpi\n");
  std::fflush(stdout);
}

void print_peers_row(const std::vector<std::string>& kinds, const PeerRow& row) {
  fmt::print("{:<24} {:>12.2f}", row.work.name(), row.own.least() * 1e3);
  for (const std::string& kind : kinds) {
    const auto peer = row.peers.find(kind);
    fmt::print(" {:>12}", peer == row.peers.end() ? "-" : fmt::format("{:.2f}", peer->second.least() * 1e3));
  }
  const std::string best = row.best();
  fmt::print("  {}\n", best.empty() ? "-" : fmt::format("{:.2f} ({})", row.ratio(), best));
  std::fflush(stdout);
}

nlohmann::json peer_row_json(const PeerRow& row) {
  nlohmann::json peers = nlohmann::json::object();
  for (const auto& [kind, times] : row.peers) {
    peers[kind] = times_json(times);
    peers[kind]["name"] = row.called.at(kind);
  }
  nlohmann::json json = {{"preset", row.work.model},
                         {"batch", row.work.batch},
                         {"context", row.work.config.context},
                         {"vocabulary", row.work.config.vocabulary},
                         {"precision", name_of_precision(row.work.type)},
                         {"steps", row.steps},
                         {"gpt_mpi", times_json(row.own)},
                         {"peers", peers}};
  if (const std::string best = row.best(); !best.empty()) {
    json["best"] = best;
    json["ratio"] = row.ratio();
  }
  return json;
}

}  // namespace gpt
