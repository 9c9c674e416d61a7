#include "train/device_choice.hpp"

#include "base/list_some.hpp"
#include "comm/hang.hpp"
#include "train/gpu_assignment.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace gpt {
namespace {

/// Of ranks that do the same on one host: "ranks 0, 1 on n0".
struct Placed {
  std::vector<int> ranks;
  std::string host;
};

std::string to_text(const Placed& placed) {
  return fmt::format("{} on {}", list_ranks(placed.ranks), placed.host);
}

std::string list_by_host(const std::vector<int>& ranks, const std::vector<SeenGpus>& seen_by_rank) {
  std::vector<Placed> by_host;
  for (const int rank : ranks) {
    const std::string& host = seen_by_rank[static_cast<size_t>(rank)].host;
    const auto known = std::ranges::find(by_host, host, &Placed::host);
    if (known == by_host.end())
      by_host.push_back({.ranks = {rank}, .host = host});
    else
      known->ranks.push_back(rank);
  }
  std::vector<std::string> texts;
  for (const Placed& placed : by_host) texts.push_back(to_text(placed));
  return list_some(texts);
}

std::vector<int> ranks_without_gpu(const std::vector<SeenGpus>& seen_by_rank) {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < seen_by_rank.size(); ++rank)
    if (seen_by_rank[rank].uuids.empty()) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

[[noreturn]] void refuse_sharing(int rank, const std::vector<SeenGpus>& seen_by_rank,
                                 const GpuAssignment& given) {
  const SeenGpus& seen = seen_by_rank[static_cast<size_t>(rank)];
  std::vector<std::string> taken;
  for (const std::string& uuid : seen.uuids) {
    const int owner = given.owner_of(uuid);
    taken.push_back(
        fmt::format("{} by rank {} ({})", uuid, owner, seen_by_rank[static_cast<size_t>(owner)].host));
  }
  throw Error(
      fmt::format("rank {} on {} has no GPU of its own: of those that it sees, {} {} taken. Start one rank "
                  "for each GPU (--ntasks-per-node, --gpus-per-node, --gpu-bind=none), or use --device cpu",
                  rank, seen.host, list_some(taken), taken.size() == 1 ? "is" : "are"),
      ExitCode::preflight);
}

nlohmann::json to_json(const SeenGpus& seen) { return {seen.host, seen.uuids, seen.why_none}; }

SeenGpus seen_from(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return {.host = json.at(0).get<std::string>(),
          .uuids = json.at(1).get<std::vector<std::string>>(),
          .why_none = json.at(2).get<std::string>()};
}

/// What is left to a rank of an agreement.
DeviceChoice choice_of(const std::optional<int>& gpu, const SeenGpus& seen, std::string notice) {
  return {.gpu = gpu, .uuid = gpu ? seen.uuids[static_cast<size_t>(*gpu)] : "", .notice = std::move(notice)};
}

SeenGpus look(const std::string& host, bool wanted) {
  SeenGpus seen{.host = host, .uuids = {}, .why_none = {}};
  if (!wanted) return seen;
  for (const CudaDeviceInfo& device : visible_cuda_devices()) seen.uuids.push_back(device.uuid_text());
  if (seen.uuids.empty()) seen.why_none = why_no_cuda_device();
  return seen;
}

}  // namespace

void validate_device(const std::string& asked) {
  validate(asked == "auto" || asked == "cpu" || asked == "cuda", "--device {}: use one of auto, cpu, cuda",
           asked);
  validate(asked != "cuda" || has_cuda(), "--device cuda: {}", why_no_cuda_device());
}

void validate_attention(const std::string& asked, const std::string& device) {
  validate(asked == "own" || asked == "cudnn", "--attention {}: use own or cudnn", asked);
  validate(asked == "own" || device != "cpu",
           "--attention cudnn with --device cpu: cuDNN computes on GPUs only: use --attention own");
  validate(asked == "own" || has_cudnn_attention(), "--attention cudnn: {}", why_no_cudnn_attention());
}

DeviceAgreement agree_on_devices(const std::string& asked, const std::vector<SeenGpus>& seen_by_rank) {
  const size_t ranks = seen_by_rank.size();
  DeviceAgreement agreement{.gpu_of_rank = std::vector<std::optional<int>>(ranks), .notice = {}};
  if (asked == "cpu") return agreement;
  const std::vector<int> without = ranks_without_gpu(seen_by_rank);
  if (!without.empty()) {
    const std::string& why = seen_by_rank[static_cast<size_t>(without.front())].why_none;
    validate(asked != "cuda", ExitCode::preflight, "--device cuda: {} cannot: {}",
             list_by_host(without, seen_by_rank), why);
    if (without.size() < ranks)
      agreement.notice = fmt::format(
          "NOTICE: ALL RANKS COMPUTE ON THE CPU, because {} can use no GPU and {} can: {}. With --device "
          "cuda the "
          "start would be refused",
          list_by_host(without, seen_by_rank), ranks - without.size(), why);
    return agreement;
  }
  std::vector<std::vector<std::string>> uuids_by_rank;
  for (const SeenGpus& seen : seen_by_rank) uuids_by_rank.push_back(seen.uuids);
  GpuAssignment given(uuids_by_rank);
  for (int rank = 0; rank < std::ssize(seen_by_rank); ++rank)
    if (!given.give(rank)) refuse_sharing(rank, seen_by_rank, given);
  for (size_t rank = 0; rank < ranks; ++rank)
    agreement.gpu_of_rank[rank] = given.index_of(static_cast<int>(rank));
  return agreement;
}

std::vector<SeenGpus> gather_seen_gpus(const World& world, const std::string& asked) {
  SeenGpus mine;
  world.everywhere([&] { mine = look(world.host(), asked != "cpu"); });
  std::vector<SeenGpus> seen_by_rank;
  for (const std::string& text : world.gather(to_json(mine).dump())) seen_by_rank.push_back(seen_from(text));
  return seen_by_rank;
}

DeviceChoice choose_device(const World& world, const std::string& asked) {
  const std::vector<SeenGpus> seen_by_rank = gather_seen_gpus(world, asked);
  try {
    DeviceAgreement agreement = agree_on_devices(asked, seen_by_rank);
    // A program without CUDA was never meant for GPUs.
    if (asked == "auto" && !agreement.gpu_of_rank.front() && agreement.notice.empty() && has_cuda())
      agreement.notice = "notice: all ranks compute on the CPU: " + seen_by_rank.front().why_none;
    const auto rank = static_cast<size_t>(world.rank());
    return choice_of(agreement.gpu_of_rank[rank], seen_by_rank[rank], std::move(agreement.notice));
  } catch (const Error& error) {
    throw SharedError(error.what(), error.code());  // all ranks have seen the same
  }
}

DeviceChoice choose_device(const std::string& asked) {
  const SeenGpus seen = look("this machine", asked != "cpu");
  return choice_of(agree_on_devices(asked, {seen}).gpu_of_rank.front(), seen, {});
}

std::unique_ptr<Device> make_device(const DeviceChoice& choice, int threads, const CudaOptions& options) {
  return choice.gpu ? make_cuda_device(*choice.gpu, options) : make_cpu_device(threads);
}

}  // namespace gpt
