#include "device/cuda/cudnn_attention.hpp"

#include "base/error.hpp"
#include "base/handle.hpp"
#include "device/cuda/cuda_queue.hpp"
#include "device/cuda/scratch_areas.hpp"
#include "device/cuda_device.hpp"

#include <array>
#include <cmath>
#include <cudnn_frontend.h>
#include <map>
#include <unordered_map>
#include <utility>

// Attention as cuDNN's graph API describes it (docs/operations/Attention.md of cudnn-frontend): q, k and v
// are (B,H,T,D) with strides, so that they and their gradients stay in our (B,T,3C).

namespace gpt {
namespace {

namespace frontend = cudnn_frontend;
using frontend::graph::Graph;
using frontend::graph::Tensor_attributes;
using Pass = FusedAttention::Pass;
using Addresses = std::unordered_map<int64_t, void*>;

struct CudnnTraits {
  using type = cudnnHandle_t;
  static type null() { return nullptr; }
  static void release(type library) { cudnnDestroy(library); }
};
using CudnnHandle = Handle<CudnnTraits>;

void check_cudnn(cudnnStatus_t status) {
  validate(
      status == CUDNN_STATUS_SUCCESS, ExitCode::failed,
      "cuDNN: {} ({}); look at nvidia-smi, and compare the versions that gpt_mpi --version names, or use "
      "--attention own",
      cudnnGetErrorString(status), static_cast<int>(status));
}

// Numbers by which a graph's tensors get their addresses.
constexpr int64_t q_id = 1, k_id = 2, v_id = 3, y_id = 4, log_sum_id = 5;
constexpr int64_t dy_id = 6, dq_id = 7, dk_id = 8, dv_id = 9;

struct Size {
  int64_t sequences;
  HeadShape heads;

  float scale() const { return 1.0F / std::sqrt(static_cast<float>(heads.head_size)); }
};

/// Heads as (B,H,T,D), in rows of `parts`·C elements of which they are C.
void set_heads(Tensor_attributes& tensor, int64_t id, const Size& size, int64_t parts) {
  const HeadShape& s = size.heads;
  const int64_t row = parts * s.width();
  tensor.set_uid(id)
      .set_dim({size.sequences, s.heads, s.positions, s.head_size})
      .set_stride({s.positions * row, s.head_size, row, 1})
      .set_data_type(frontend::DataType_t::BFLOAT16);
}

/// log_sum (B,H,T) as (B,H,T,1). cuDNN's statistics are log Σ exp(scale·score), by the natural logarithm
/// (Attention.md at set_stats_use_log2: "the default natural-log form max + ln(sum_exp)"), as ours.
void set_log_sum(Tensor_attributes& tensor, const Size& size) {
  const HeadShape& s = size.heads;
  tensor.set_uid(log_sum_id)
      .set_dim({size.sequences, s.heads, s.positions, 1})
      .set_stride({s.heads * s.positions, s.positions, 1, 1})
      .set_data_type(frontend::DataType_t::FLOAT);
}

std::shared_ptr<Tensor_attributes> input(Graph& graph, int64_t id, const Size& size, int64_t parts) {
  Tensor_attributes tensor;
  set_heads(tensor, id, size, parts);
  return graph.tensor(tensor);
}

std::shared_ptr<Graph> empty_graph() {
  auto graph = std::make_shared<Graph>();
  graph->set_io_data_type(frontend::DataType_t::BFLOAT16)
      .set_intermediate_data_type(frontend::DataType_t::FLOAT)
      .set_compute_data_type(frontend::DataType_t::FLOAT);
  return graph;
}

std::shared_ptr<Graph> forward_graph(const Size& size) {
  auto graph = empty_graph();
  const auto q = input(*graph, q_id, size, 3), k = input(*graph, k_id, size, 3),
             v = input(*graph, v_id, size, 3);
  const auto [y, log_sum] = graph->sdpa(q, k, v,
                                        frontend::graph::SDPA_attributes()
                                            .set_name("attention")
                                            .set_generate_stats(true)
                                            .set_attn_scale(size.scale())
                                            .set_diagonal_alignment(frontend::DiagonalAlignment_t::TOP_LEFT)
                                            .set_diagonal_band_right_bound(0));
  set_heads(y->set_output(true), y_id, size, 1);
  set_log_sum(log_sum->set_output(true), size);
  return graph;
}

std::shared_ptr<Graph> backward_graph(const Size& size) {
  auto graph = empty_graph();
  const auto q = input(*graph, q_id, size, 3), k = input(*graph, k_id, size, 3),
             v = input(*graph, v_id, size, 3), y = input(*graph, y_id, size, 1),
             dy = input(*graph, dy_id, size, 1);
  Tensor_attributes statistics;
  set_log_sum(statistics, size);
  const auto [dq, dk, dv] =
      graph->sdpa_backward(q, k, v, y, dy, graph->tensor(statistics),
                           frontend::graph::SDPA_backward_attributes()
                               .set_name("attention_backward")
                               .set_attn_scale(size.scale())
                               .set_diagonal_alignment(frontend::DiagonalAlignment_t::TOP_LEFT)
                               .set_diagonal_band_right_bound(0)
                               .set_deterministic_algorithm(true));
  set_heads(dq->set_output(true), dq_id, size, 3);
  set_heads(dk->set_output(true), dk_id, size, 3);
  set_heads(dv->set_output(true), dv_id, size, 3);
  return graph;
}

struct Plan {
  std::shared_ptr<Graph> graph;
  int64_t workspace = 0;
  std::string refusal;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Kernels are chosen by the library's rules (heuristics of mode A), never by timing.
Plan make_plan(Pass pass, const Size& size, cudnnHandle_t library) try {
  Plan plan{.graph = pass == Pass::forward ? forward_graph(size) : backward_graph(size), .refusal = {}};
  const frontend::error_t built = plan.graph->build(library, {frontend::HeurMode_t::A});
  if (built.is_bad()) return {.graph = nullptr, .refusal = "cuDNN: " + first_line(built.err_msg)};
  const frontend::error_t known = plan.graph->get_workspace_size(plan.workspace);
  if (known.is_bad()) return {.graph = nullptr, .refusal = "cuDNN: " + first_line(known.err_msg)};
  const int64_t most = cudnn_attention_bytes(size.heads, size.sequences);
  if (plan.workspace > most)
    return {.graph = nullptr,
            .refusal = fmt::format("cuDNN wants {:.1f} MiB of workspace, and {:.1f} are planned",
                                   static_cast<double>(plan.workspace) / 0x1p20,
                                   static_cast<double>(most) / 0x1p20)};
  return plan;
} catch (const std::exception& error) {
  return {.graph = nullptr, .refusal = "cuDNN: " + first_line(error.what())};
}

/// A third of (B,T,3C): 0 for q, 1 for k, 2 for v.
void* third(const Tensor& qkv, int64_t which) { return qkv.data<bfloat16>() + which * (qkv.columns() / 3); }

class CudnnAttention final : public FusedAttention {
public:
  CudnnAttention() {
    cudnnHandle_t library = nullptr;
    check_cudnn(cudnnCreate(&library));
    library_.reset(library);
  }

  const std::string& refusal(Pass pass, int64_t sequences, const HeadShape& shape) override {
    return plan_of(pass, sequences, shape).refusal;
  }

  void forward(Tensor y, Tensor log_sum, Tensor qkv, const HeadShape& shape, CudaQueue& queue) override {
    run(plan_of(Pass::forward, qkv.dim(0), shape),
        {{q_id, third(qkv, 0)},
         {k_id, third(qkv, 1)},
         {v_id, third(qkv, 2)},
         {y_id, y.raw()},
         {log_sum_id, log_sum.raw()}},
        queue);
  }

  void backward(Tensor dqkv, Tensor dy, Tensor y, Tensor qkv, Tensor log_sum, const HeadShape& shape,
                CudaQueue& queue) override {
    run(plan_of(Pass::backward, qkv.dim(0), shape),
        {{q_id, third(qkv, 0)},
         {k_id, third(qkv, 1)},
         {v_id, third(qkv, 2)},
         {y_id, y.raw()},
         {log_sum_id, log_sum.raw()},
         {dy_id, dy.raw()},
         {dq_id, third(dqkv, 0)},
         {dk_id, third(dqkv, 1)},
         {dv_id, third(dqkv, 2)}},
        queue);
  }

private:
  using Key = std::array<int64_t, 5>;

  const Plan& plan_of(Pass pass, int64_t sequences, const HeadShape& shape) {
    const Key key{static_cast<int64_t>(pass), sequences, shape.positions, shape.heads, shape.head_size};
    auto known = plans_.find(key);
    if (known == plans_.end())
      known = plans_.emplace(key, make_plan(pass, {sequences, shape}, library_.get())).first;
    return known->second;
  }

  void run(const Plan& plan, Addresses addresses, CudaQueue& queue) {
    expects(plan.refusal.empty());
    check_cudnn(cudnnSetStream(library_.get(), queue.stream()));
    const frontend::error_t started =
        plan.graph->execute(library_.get(), addresses, queue.scratch(plan.workspace));
    validate(started.is_good(), ExitCode::failed, "cuDNN's attention: {}; use --attention own",
             first_line(started.err_msg));
  }

  CudnnHandle library_;
  std::map<Key, Plan> plans_;
};

}  // namespace

bool has_cudnn_attention() { return true; }

std::string why_no_cudnn_attention() { return {}; }

std::unique_ptr<FusedAttention> make_cudnn_attention() { return std::make_unique<CudnnAttention>(); }

std::string cudnn_version() {
  const size_t loaded = cudnnGetVersion();
  return fmt::format("compiled {}.{}.{}, loaded {}.{}.{}, frontend {}.{}.{}", CUDNN_MAJOR, CUDNN_MINOR,
                     CUDNN_PATCHLEVEL, loaded / 10000, loaded / 100 % 100, loaded % 100,
                     CUDNN_FRONTEND_MAJOR_VERSION, CUDNN_FRONTEND_MINOR_VERSION,
                     CUDNN_FRONTEND_PATCH_VERSION);
}

}  // namespace gpt
