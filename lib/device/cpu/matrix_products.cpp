#include "device/cpu/matrix_products.hpp"

#include "base/error.hpp"
#include "device/cpu/cast.hpp"
#include "device/cpu/elementwise.hpp"
#include "device/cpu/parallel.hpp"

#include <algorithm>
#include <array>
#include <dnnl.hpp>
#include <fmt/format.h>
#include <initializer_list>
#include <map>
#include <omp.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace gpt {
namespace {

using dnnl::memory;

struct Argument {
  int name;  ///< DNNL_ARG_…
  memory::desc desc;
};

/// A primitive with memories that are pointed at the caller's arrays for each run.
class Product {
public:
  Product(const dnnl::engine& engine, dnnl::primitive primitive, const std::vector<Argument>& arguments)
      : primitive_(std::move(primitive)) {
    for (const Argument& argument : arguments) {
      memories_.emplace_back(argument.desc, engine, nullptr);
      arguments_.emplace(argument.name, memories_.back());
    }
  }

  /// `arrays` in the order in which the arguments were given.
  void run(dnnl::stream& stream, std::initializer_list<Tensor> arrays) {
    auto memory_of = memories_.begin();
    for (const Tensor& array : arrays)
      if (memory_of != memories_.end()) (memory_of++)->set_data_handle(array.raw());
    primitive_.execute(stream, arguments_);
  }

private:
  dnnl::primitive primitive_;
  std::vector<memory> memories_;
  std::unordered_map<int, memory> arguments_;
};

memory::desc matrix(DType type, int64_t rows, int64_t columns,
                    memory::format_tag tag = memory::format_tag::ab) {
  return {{rows, columns}, type == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32, tag};
}
memory::desc row(int64_t size) { return {{size}, memory::data_type::f32, memory::format_tag::a}; }

/// A set of instructions has the bits of those that it contains.
bool may_use(dnnl::cpu_isa instructions) {
  const auto wanted = static_cast<int>(instructions);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

enum class Kind { forward, backward_input, backward_weight };

struct Key {
  Kind kind;
  DType type;
  DType result;
  bool bias;
  LinearShape shape;

  auto operator<=>(const Key&) const = default;
};

/// oneDNN takes its threads from OpenMP's setting, and reports errors by exceptions of its own.
template <class Work>
void guarded(int threads, const Work& work) {
  omp_set_num_threads(threads);
  try {
    work();
  } catch (const dnnl::error& error) {
    throw Error(fmt::format("oneDNN failed ({}): {}", static_cast<int>(error.status), error.what()));
  }
}

}  // namespace

struct MatrixProducts::Impl {
  Impl(Allocator& memory_source, int thread_count)
      : allocator(&memory_source),
        threads(thread_count),
        engine(dnnl::engine::kind::cpu, 0),
        stream(engine) {}

  Product& find(const Key& key) {
    auto found = products.find(key);
    if (found == products.end()) found = products.emplace(key, make(key)).first;
    return found->second;
  }

  Product make(const Key& key) const {
    switch (key.kind) {
      case Kind::forward:
        return make_forward(key.shape, key.type, key.result, key.bias);
      case Kind::backward_input:
        return make_backward_input(key.shape, key.type);
      case Kind::backward_weight:
        return make_backward_weight(key.shape, key.type, key.bias);
    }
    contract_broken("kind of product", std::source_location::current());
  }

  /// Arguments: y, x, w, and b if there is one.
  Product make_forward(const LinearShape& s, DType type, DType result, bool bias) const {
    const auto x = matrix(type, s.rows, s.in);
    const auto w = matrix(type, s.in, s.out, memory::format_tag::ba);
    const auto y = matrix(result, s.rows, s.out);
    const auto b = matrix(DType::f32, 1, s.out);
    const dnnl::matmul::desc desc = bias ? dnnl::matmul::desc(x, w, b, y) : dnnl::matmul::desc(x, w, y);
    std::vector<Argument> arguments{{DNNL_ARG_DST, y}, {DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}};
    if (bias) arguments.push_back({DNNL_ARG_BIAS, b});
    return {engine, dnnl::matmul({desc, engine}), arguments};
  }

  dnnl::inner_product_forward::primitive_desc forward_hint(const memory::desc& x, const memory::desc& w,
                                                           const memory::desc& y) const {
    return {{dnnl::prop_kind::forward_training, x, w, y}, engine};
  }

  /// Arguments: dx, dy, w.
  Product make_backward_input(const LinearShape& s, DType type) const {
    const auto dx = matrix(type, s.rows, s.in);
    const auto w = matrix(type, s.out, s.in);
    const auto dy = matrix(type, s.rows, s.out);
    // The inner product loses up to a third of its speed on wide rows of dx when W comes from memory, and in
    // bf16 4 to 14 % everywhere; elsewhere it is the faster form, on processors with AMX twice as fast.
    if (type == DType::bf16 || (s.in > 2 * s.out && !may_use(dnnl::cpu_isa::avx512_core_amx)))
      return {engine,
              dnnl::matmul({{dy, w, dx}, engine}),
              {{DNNL_ARG_DST, dx}, {DNNL_ARG_SRC, dy}, {DNNL_ARG_WEIGHTS, w}}};
    return {engine,
            dnnl::inner_product_backward_data({{dx, w, dy}, engine, forward_hint(dx, w, dy)}),
            {{DNNL_ARG_DIFF_SRC, dx}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, w}}};
  }

  /// Arguments: dw, dy, x, and db if there is one.
  Product make_backward_weight(const LinearShape& s, DType type, bool bias) const {
    const auto x = matrix(type, s.rows, s.in);
    const auto dw = matrix(DType::f32, s.out, s.in);
    const auto w = matrix(type, s.out, s.in);
    const auto dy = matrix(type, s.rows, s.out);
    const auto db = row(s.out);
    using Backward = dnnl::inner_product_backward_weights;
    const Backward::desc desc = bias ? Backward::desc(x, dw, db, dy) : Backward::desc(x, dw, dy);
    std::vector<Argument> arguments{{DNNL_ARG_DIFF_WEIGHTS, dw}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_SRC, x}};
    if (bias) arguments.push_back({DNNL_ARG_DIFF_BIAS, db});
    return {engine, Backward({desc, engine, forward_hint(x, w, dy)}), arguments};
  }

  /// f32 of these sizes, one after the other; what was given out before is lost.
  template <size_t count>
  std::array<Tensor, count> take(const std::array<int64_t, count>& sizes) {
    int64_t bytes = 0;
    for (const int64_t size : sizes) bytes += bytes_of(size);
    if (scratch.bytes() < bytes) scratch = Buffer(*allocator, bytes);
    std::array<Tensor, count> parts;
    auto* next = static_cast<std::byte*>(scratch.data());
    for (size_t i = 0; i < count; ++i) {
      parts[i] = Tensor(next, DType::f32, {sizes[i]});
      next += bytes_of(sizes[i]);
    }
    return parts;
  }
  static int64_t bytes_of(int64_t floats) {
    constexpr int64_t cache_line = 64;
    return round_up(floats * static_cast<int64_t>(sizeof(float)), cache_line);
  }

  bool widens(const Tensor& operand) const { return operand.dtype() == DType::bf16 && widens_all; }

  /// out = x times w, as `kind` says, plus the bias if there is one.
  void multiply(Kind kind, Tensor out, Tensor x, Tensor w, Tensor bias, const LinearShape& shape) {
    Tensor product = out;
    if (widens(x)) {
      const auto wide = take<3>({x.size(), w.size(), out.dtype() == DType::bf16 ? out.size() : 0});
      convert(wide[0], x, threads);
      convert(wide[1], w, threads);
      x = wide[0], w = wide[1];
      if (out.dtype() == DType::bf16) product = wide[2];
    }
    guarded(threads, [&] {
      find({kind, x.dtype(), product.dtype(), static_cast<bool>(bias), shape})
          .run(stream, {product, x, w, bias});
    });
    if (product.dtype() != out.dtype()) convert(out, product, threads);
  }

  Allocator* allocator;
  int threads;
  dnnl::engine engine;
  dnnl::stream stream;
  bool widens_all = widens_bfloat16();
  std::map<Key, Product> products;
  Buffer scratch;  ///< gradients on their way to being added; bf16 operands, widened
};

std::string product_library() {
  constexpr std::pair<dnnl::cpu_isa, const char*> names[] = {{dnnl::cpu_isa::avx512_core_amx, "AMX"},
                                                             {dnnl::cpu_isa::avx512_core_bf16, "AVX512_BF16"},
                                                             {dnnl::cpu_isa::avx512_core_vnni, "AVX512_VNNI"},
                                                             {dnnl::cpu_isa::avx512_core, "AVX-512"},
                                                             {dnnl::cpu_isa::avx2, "AVX2"},
                                                             {dnnl::cpu_isa::avx, "AVX"},
                                                             {dnnl::cpu_isa::sse41, "SSE4.1"}};
  const auto* const found =
      std::ranges::find_if(names, [](const auto& entry) { return may_use(entry.first); });
  const dnnl::version_t* const version = dnnl::version();
  return fmt::format("oneDNN {}.{}.{} with {}", version->major, version->minor, version->patch,
                     found == std::end(names) ? "scalar instructions" : found->second);
}

bool widens_bfloat16() { return !may_use(dnnl::cpu_isa::avx512_core); }

bool has_bfloat16_instructions() { return may_use(dnnl::cpu_isa::avx512_core_bf16); }

MatrixProducts::MatrixProducts(Allocator& allocator, int threads) {
  guarded(threads, [&] { impl_ = std::make_unique<Impl>(allocator, threads); });
}
MatrixProducts::~MatrixProducts() = default;

void MatrixProducts::forward(Tensor y, Tensor x, Tensor w, Tensor b, const LinearShape& shape) {
  impl_->multiply(Kind::forward, y, x, w, b, shape);
}

void MatrixProducts::backward_input(Tensor dx, Tensor dy, Tensor w, const LinearShape& shape) {
  impl_->multiply(Kind::backward_input, dx, dy, w, {}, shape);
}

void MatrixProducts::backward_weight(Tensor dw, Tensor db, Tensor dy, Tensor x, const LinearShape& shape,
                                     Write write) {
  Impl& impl = *impl_;
  const bool accumulates = write == Write::accumulate, widens = impl.widens(dy);
  Tensor dw_written = dw, db_written = db;
  if (accumulates || widens) {
    const auto parts = impl.take<4>({accumulates ? dw.size() : 0, accumulates ? shape.out : 0,
                                     widens ? dy.size() : 0, widens ? x.size() : 0});
    if (accumulates) dw_written = parts[0], db_written = parts[1];
    if (widens) {
      convert(parts[2], dy, impl.threads);
      convert(parts[3], x, impl.threads);
      dy = parts[2], x = parts[3];
    }
  }
  guarded(impl.threads, [&] {
    impl.find({Kind::backward_weight, dy.dtype(), DType::f32, static_cast<bool>(db), shape})
        .run(impl.stream, {dw_written, dy, x, db_written});
  });
  if (!accumulates) return;
  parallel_ranges(impl.threads, dw.size(), elementwise_grain, [&](Range range, int) {
    add_to(dw.data<float>() + range.begin, dw_written.data<float>() + range.begin, range.size());
  });
  if (db) add_to(db.data<float>(), db_written.data<float>(), shape.out);
}

}  // namespace gpt
