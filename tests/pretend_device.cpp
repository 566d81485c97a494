// A device that keeps its memory in that of the CPU: real numbers, its own generator, no mixing.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/view_cpu_dispatch.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/unfold_cpu_dispatch.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/extension.h>
#include <cstdlib>

namespace {
constexpr auto KIND = c10::DeviceType::PrivateUse1;
const c10::Device HERE(KIND, 0);
bool no_float64 = false;

void del(void* p) { std::free(p); }
struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    void* p = n ? std::malloc(n) : nullptr;
    return {p, p, &del, HERE};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &del; }
  void copy_data(void* to, const void* from, std::size_t n) const override { std::memcpy(to, from, n); }
};
Memory memory;
REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &memory);

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = c10::DeviceType::PrivateUse1;
  Guard() = default;
  explicit Guard(c10::DeviceType) {}
  c10::DeviceType type() const override { return KIND; }
  c10::Device exchangeDevice(c10::Device) const override { return HERE; }
  c10::Device getDevice() const override { return HERE; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, HERE); }
  c10::Stream getNewStream(c10::Device, int) const override { return c10::Stream(c10::Stream::DEFAULT, HERE); }
  c10::Stream exchangeStream(c10::Stream) const override { return c10::Stream(c10::Stream::DEFAULT, HERE); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Source final : c10::GeneratorImpl {  // of random numbers; a CPU generator does the work
  at::Generator inner;
  Source() : c10::GeneratorImpl(HERE, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
             inner(at::detail::createCPUGenerator()) {}
  void set_current_seed(uint64_t s) override { inner.set_current_seed(s ^ 0x5bd1e995); seed_ = s; }
  void set_offset(uint64_t) override {}
  uint64_t get_offset() const override { return 0; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override { seed_ = inner.seed(); return seed_; }
  void set_state(const c10::TensorImpl& s) override {
    inner.unsafeGetGeneratorImpl()->set_state(s);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return inner.unsafeGetGeneratorImpl()->get_state();
  }
  static c10::DeviceType device_type() { return KIND; }
 private:
  uint64_t seed_ = 0;
  c10::GeneratorImpl* clone_impl() const override {
    auto* copy = new Source();
    copy->inner = inner.clone();
    return copy;
  }
};
at::Generator& default_generator() {
  static at::Generator own = at::make_generator<Source>();
  return own;
}
struct Hooks : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return default_generator(); }
  at::Generator getNewGenerator(c10::DeviceIndex = -1) const override {
    return at::make_generator<Source>();
  }
};

void check(c10::ScalarType t) {
  TORCH_CHECK_TYPE(!(no_float64 && t == at::kDouble),
    "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.");
}
at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> t, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> f) {
  check(c10::dtype_or_default(t));
  return at::detail::empty_generic(size, &memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(t), f);
}
at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> t,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  check(c10::dtype_or_default(t));
  return at::detail::empty_strided_generic(size, stride, &memory,
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(t));
}
at::Tensor on_cpu(const at::Tensor& x) {  // the same memory, as a CPU tensor
  if (x.is_cpu()) return x;
  return at::from_blob(x.data_ptr(), x.sizes(), x.strides(), at::TensorOptions().dtype(x.dtype()));
}
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool) {
  on_cpu(dst).copy_(on_cpu(self));
  return dst;
}
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  const_cast<at::Tensor&>(dst).resize_(self.sizes());
  on_cpu(dst).copy_(on_cpu(self));
  return dst;
}
at::Scalar local_scalar(const at::Tensor& self) { return on_cpu(self).item(); }
const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat> f) {
  auto ints = C10_AS_INTARRAYREF_SLOW(size);
  auto* impl = self.unsafeGetTensorImpl();
  int64_t need = self.storage_offset();
  int64_t n = 1; for (auto s : ints) n *= s;
  size_t bytes = (need + n) * self.itemsize();
  if (bytes > self.storage().nbytes()) {
    auto& st = self.storage();
    auto fresh = memory.allocate(bytes);
    if (st.nbytes()) std::memcpy(fresh.get(), st.data(), st.nbytes());
    st.unsafeGetStorageImpl()->set_data_ptr(std::move(fresh));
    st.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
  impl->set_sizes_contiguous(ints);
  if (f.has_value()) impl->empty_tensor_restride(*f);
  return self;
}
at::Tensor as_strided(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<int64_t> o) {
  return at::cpu::as_strided(self, size, stride, o);
}
at::Tensor view(const at::Tensor& self, c10::IntArrayRef size) { return at::cpu::view(self, size); }
at::Tensor reshape_alias(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return at::cpu::as_strided(self, size, stride, self.storage_offset());
}
at::Tensor unfold(const at::Tensor& self, int64_t d, int64_t s, int64_t t) { return at::cpu::unfold(self, d, s, t); }
at::Tensor& set_storage(at::Tensor& self, at::Storage s, int64_t o, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return at::cpu::set_(self, s, o, size, stride);
}
std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& x, double p, std::optional<bool> train) {
  if (!train.value_or(true)) return {x, at::ones_like(x, x.options().dtype(at::kBool))};
  auto mask = at::empty_like(x).bernoulli_(1 - p);
  return {x * mask / (1 - p), mask.to(at::kBool)};
}
int64_t sdp_choice(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, double, bool, std::optional<double>, bool) { return 0; }

at::Tensor back(const at::Tensor& x) { return x.defined() ? x.to(HERE) : x; }
std::optional<at::Tensor> maybe(const std::optional<at::Tensor>& x) {
  return x.has_value() && x->defined() ? std::optional<at::Tensor>(on_cpu(*x)) : std::nullopt;
}
at::Tensor conv(const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& b, c10::IntArrayRef st,
                c10::IntArrayRef pad, c10::IntArrayRef dil, bool tr, c10::IntArrayRef op, int64_t g) {
  return back(at::convolution(on_cpu(x), on_cpu(w), maybe(b), st, pad, dil, tr, op, g));
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> conv_back(const at::Tensor& go, const at::Tensor& x, const at::Tensor& w,
    c10::IntArrayRef st, c10::IntArrayRef pad, c10::IntArrayRef dil, bool tr, c10::IntArrayRef op, int64_t g, std::array<bool, 3> m) {
  auto r = at::convolution_backward(on_cpu(go), on_cpu(x), on_cpu(w), c10::IntArrayRef{w.size(tr ? 1 : 0)}, st, pad, dil, tr, op, g, m);
  return {back(std::get<0>(r)), back(std::get<1>(r)), back(std::get<2>(r))};
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& i, const at::Tensor& h, const at::Tensor& cx,
    const std::optional<at::Tensor>& bi, const std::optional<at::Tensor>& bh) {
  auto gates = i + h;
  if (bi.has_value() && bi->defined()) gates = gates + *bi + *bh;
  auto p = gates.chunk(4, 1);
  auto cy = p[1].sigmoid() * cx + p[0].sigmoid() * p[2].tanh();
  return {p[3].sigmoid() * cy.tanh(), cy, gates};
}
std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& i, const at::Tensor& h, const at::Tensor& hx,
    const std::optional<at::Tensor>& bi, const std::optional<at::Tensor>& bh) {
  auto a = i, b = h;
  if (bi.has_value() && bi->defined()) { a = a + *bi; b = b + *bh; }
  auto x = a.chunk(3, 1), y = b.chunk(3, 1);
  auto r = (x[0] + y[0]).sigmoid(), z = (x[1] + y[1]).sigmoid();
  auto n = (x[2] + r * y[2]).tanh();
  return {(1 - z) * n + z * hx, a};
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const auto& wanted = schema.arguments();
  const size_t begin = stack->size() - wanted.size();
  const std::string name = schema.name();
  bool indexes = name.find("index") != std::string::npos || name == "aten::_foreach_copy_";
  for (size_t i = 0; i < wanted.size(); ++i) {
    auto& v = (*stack)[begin + i];
    auto refuse = [&](const at::Tensor& t) {
      if (t.defined() && t.is_cpu() && t.dim() > 0 && !indexes)
        TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, pretend:0 and cpu! (", name, ")");
    };
    if (v.isTensor()) refuse(v.toTensor());
    else if (v.isTensorList()) for (const at::Tensor& t : v.toTensorVector()) refuse(t);
    else if (wanted[i].name() == "generator") {
      at::Generator g = v.isGenerator() ? v.toGenerator() : default_generator();
      TORCH_CHECK(g.device().type() == KIND, "Expected a 'pretend' device type for generator but found '", g.device(), "' (", name, ")");
      v = static_cast<Source*>(g.unsafeGetGeneratorImpl())->inner;
    }
  }
  at::native::cpu_fallback(op, stack);
}
}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("unfold", unfold);
  m.impl("resize_", resize_);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("native_dropout", native_dropout);
  m.impl("convolution_overrideable", conv);
  m.impl("convolution_backward_overrideable", conv_back);
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_fused_sdp_choice", sdp_choice);
}
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("start", [] { at::RegisterPrivateUse1HooksInterface(new Hooks()); });
  m.def("refuse_float64", [](bool on) { no_float64 = on; });
  m.def("default_generator", [] { return default_generator(); });
}
