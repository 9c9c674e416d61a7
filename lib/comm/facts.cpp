#include "comm/facts.hpp"

#include "base/list_some.hpp"
#include "comm/hang.hpp"
#include "comm/shared_error.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gpt {

void compare_ranks(const World& world, const Facts& facts) {
  const std::vector<std::string> all =
      world.gather(nlohmann::json(facts).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  if (std::ranges::all_of(all, [&](const std::string& text) { return text == all.front(); })) return;

  std::map<std::string, RanksByValue> by_field;
  for (size_t rank = 0; rank < all.size(); ++rank)
    for (const auto& [field, value] : nlohmann::json::parse(all[rank]).get<Facts>())
      by_field[field][value].push_back(static_cast<int>(rank));
  const std::vector<std::string> hosts = world.gather(world.host());
  std::string message = "ranks do not agree, and must:";
  for (const auto& [field, values] : by_field)
    if (values.size() > 1 || values.begin()->second.size() < all.size())
      message += fmt::format("\n  {}: {}", field, describe(values, hosts));
  throw SharedError(message, ExitCode::usage);
}

std::string describe(const RanksByValue& values, const std::vector<std::string>& host_of_rank) {
  std::string text;
  for (const auto& [value, ranks] : values) {
    std::vector<std::string> hosts;
    for (const int rank : ranks)
      if (const std::string& host = host_of_rank[static_cast<size_t>(rank)];
          std::ranges::find(hosts, host) == hosts.end())
        hosts.push_back(host);
    text += fmt::format("{}{} on {} ({})", text.empty() ? "" : "; ", value.empty() ? "(empty)" : value,
                        list_ranks(ranks), list_some(hosts));
  }
  return text;
}

}  // namespace gpt
