package module

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/abi/manifest"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/wasmbin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// Reasons of an Error, in the CamelCase of Events.
const (
	ReasonModuleInvalid        = "ModuleInvalid"
	ReasonManifestMissing      = "ManifestMissing"
	ReasonManifestInvalid      = "ManifestInvalid"
	ReasonABIUnsupported       = "ABIUnsupported"
	ReasonImportUnknown        = "ImportUnknown"
	ReasonImportInvalid        = "ImportInvalid"
	ReasonCapabilityUndeclared = "CapabilityUndeclared"
	ReasonCapabilityDenied     = "CapabilityDenied"
	ReasonExportMissing        = "ExportMissing"
	ReasonExportInvalid        = "ExportInvalid"
	ReasonStartFunction        = "StartFunction"
)

// Error is the reason for refusing a module.
type Error struct {
	// Reason is CamelCase, for Events and metrics.
	Reason string
	Err    error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func errorf(reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// Policy is the administrator's policy for a module.
type Policy struct {
	// Capabilities are the names of the granted capability imports.
	Capabilities []string
	// Signer: the module must be a signer only; otherwise, it must not be one.
	Signer bool
}

var (
	sigNone     = FuncType{}
	sigRead     = FuncType{I32 + I32 + I32, I32}
	sigWrite    = FuncType{I32 + I32, ""}
	sigTime     = FuncType{"", I64}
	sigHostCall = FuncType{I32 + I32, I64}
	sigCall     = FuncType{I32 + I32, I32}
)

// importType returns the signature of an import of ABI v1.
func importType(name string) (FuncType, bool) {
	switch name {
	case abi.ImportReqRead, abi.ImportResultRead:
		return sigRead, true
	case abi.ImportRespWrite, abi.ImportErrWrite:
		return sigWrite, true
	case abi.ImportNow, abi.ImportDeadline:
		return sigTime, true
	case abi.ImportLog:
		return sigHostCall, true
	}
	return sigHostCall, slices.Contains(abi.Capabilities(), name)
}

// Check parses the module and returns its manifest if it may be compiled: it is a guest of
// this ABI, a provider or a signer as the policy says, imports only granted functions, and
// has no code that runs before the host can stop it. The error is an *Error.
func Check(wasm []byte, policy Policy) (*Module, *manifest.Manifest, error) {
	m, err := Parse(wasm)
	if err != nil {
		return nil, nil, err
	}
	if err := m.checkExports(); err != nil {
		return nil, nil, err
	}
	declared, err := m.parseManifest()
	if err != nil {
		return nil, nil, err
	}
	if err := policy.checkRole(declared); err != nil {
		return nil, nil, err
	}
	if err := m.checkImports(declared.Capabilities, policy.Capabilities); err != nil {
		return nil, nil, err
	}
	return m, declared, nil
}

// checkRole refuses a signer as a provider, and a provider as a signer.
func (p Policy) checkRole(m *manifest.Manifest) error {
	sign := abi.OpSign.String()
	switch {
	case p.Signer && !slices.Equal(m.Ops, []string{sign}):
		return errorf(ReasonModuleInvalid, "the guest %s is no signer: the ops of its manifest must be [%q] and nothing else", m.Name, sign)
	case !p.Signer && slices.Contains(m.Ops, sign):
		return errorf(ReasonModuleInvalid, "the guest %s has the op %s: it is a signer, which belongs to a credential in the HostConfiguration", m.Name, sign)
	}
	return nil
}

func (m *Module) parseManifest() (*manifest.Manifest, error) {
	section, err := m.Binary.Manifest()
	if err != nil {
		return nil, &Error{Reason: ReasonManifestInvalid, Err: err}
	}
	if section == nil {
		return nil, errorf(ReasonManifestMissing, "the module has no custom section %q; ccmctl build appends it, or ccmctl manifest", abi.ManifestSection)
	}
	declared, err := manifest.Parse(section)
	if err != nil {
		// All mistakes, in one line.
		return nil, errorf(ReasonManifestInvalid, "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if !declared.SupportsABI(abi.Version) {
		return nil, errorf(ReasonABIUnsupported, "the guest speaks ABI %d to %d, this manager speaks %d; use a manager or a guest of the other's version",
			declared.ABI.Min, declared.ABI.Max, abi.Version)
	}
	return declared, nil
}

func (m *Module) checkExports() error {
	if err := m.checkMarker(); err != nil {
		return err
	}
	for _, want := range []Export{
		{abi.ExportMemory, KindMemory, sigNone},
		{abi.ExportInitialize, KindFunc, sigNone},
		{abi.ExportMarker, KindFunc, sigNone},
		{abi.ExportCall, KindFunc, sigCall},
	} {
		if err := m.checkExport(want); err != nil {
			return err
		}
	}
	if err := m.checkResume(); err != nil {
		return err
	}
	if m.Binary.Start != nil {
		return errorf(ReasonStartFunction, "the module has a start function, which would run before the manager can stop it; build it as a reactor (-buildmode=c-shared), whose entry is the export %q", abi.ExportInitialize)
	}
	return nil
}

// checkResume checks the optional export.
func (m *Module) checkResume() error {
	if !slices.ContainsFunc(m.Exports, func(e Export) bool { return e.Name == abi.ExportResume }) {
		return nil
	}
	return m.checkExport(Export{abi.ExportResume, KindFunc, sigNone})
}

// checkMarker distinguishes a guest of another ABI from a module that is no guest.
func (m *Module) checkMarker() error {
	var others []string
	for _, e := range m.Exports {
		if e.Name == abi.ExportMarker {
			return nil
		}
		if strings.HasPrefix(e.Name, "ccm_abi_v") {
			others = append(others, text.Name(e.Name))
		}
	}
	if len(others) > 0 {
		return errorf(ReasonABIUnsupported, "the guest exports %s, this manager speaks %s; use a manager or a guest of the other's version",
			strings.Join(others, ", "), abi.ExportMarker)
	}
	return errorf(ReasonExportMissing, "the module does not export %q; is it a provider, built with guests/sdk as a reactor (-buildmode=c-shared)?", abi.ExportMarker)
}

func (m *Module) checkExport(want Export) error {
	i := slices.IndexFunc(m.Exports, func(e Export) bool { return e.Name == want.Name })
	if i < 0 {
		return errorf(ReasonExportMissing, "the module does not export the %s %q that ABI v%d needs", want.Kind, want.Name, abi.Version)
	}
	got := m.Exports[i]
	if got.Kind != want.Kind {
		return errorf(ReasonExportInvalid, "export %q is a %s, must be a %s", want.Name, got.Kind, want.Kind)
	}
	if got.Type != want.Type {
		return errorf(ReasonExportInvalid, "export %q is %s, must be %s", want.Name, got.Type, want.Type)
	}
	return nil
}

func (m *Module) checkImports(declared, granted []string) error {
	for _, i := range m.Imports {
		if i.Kind != KindFunc {
			return errorf(ReasonImportUnknown, "import %s.%s is a %s; a guest has its own, only functions can be imported", text.Name(i.Module), text.Name(i.Name), i.Kind)
		}
		var err error
		switch i.Module {
		case abi.ImportModule:
			err = checkABIImport(i, declared)
		case wasiModule:
			err = checkWASIImport(i)
		default:
			err = checkModuleName(i)
		}
		if err != nil {
			return err
		}
	}
	return checkGranted(declared, granted)
}

func checkABIImport(i Import, declared []string) error {
	// Invariant G1 (host/SECURITY.md): each import is known, has the host's signature, and is
	// named in the manifest.
	want, known := importType(i.Name)
	if !known {
		return errorf(ReasonImportUnknown, "import %s.%s is not part of ABI v%d; the guest needs a newer manager, or must do without it", i.Module, text.Name(i.Name), abi.Version)
	}
	if i.Type != want {
		return errorf(ReasonImportInvalid, "import %s.%s is %s, must be %s", i.Module, i.Name, i.Type, want)
	}
	if slices.Contains(abi.Capabilities(), i.Name) && !slices.Contains(declared, i.Name) {
		return errorf(ReasonCapabilityUndeclared, "the module imports %q, which its manifest does not name; add it to \"capabilities\"", i.Name)
	}
	return nil
}

// checkGranted compares the manifest's capabilities with the grants. A manifest may ask for
// more than the module imports, and a missing grant rejects the module.
func checkGranted(declared, granted []string) error {
	// Invariant G1 (host/SECURITY.md): a module runs only if everything in its manifest is
	// granted.
	for _, capability := range declared {
		if slices.Contains(granted, capability) {
			continue
		}
		return errorf(ReasonCapabilityDenied, "the provider needs the capability %q: %s", capability, Mend(capability))
	}
	return nil
}

// Mend says how to grant a capability: two of them have their own fields.
func Mend(capability string) string {
	switch capability {
	case abi.CapabilityHTTP:
		return "add a grant to the HostConfiguration (providers[].grants)"
	case abi.CapabilityKube:
		return "add what it may read to the HostConfiguration (providers[].kube)"
	}
	return "the administrator has not granted it; add it to the capabilities of the provider in the HostConfiguration (providers[].capabilities)"
}

// String returns the type as WebAssembly text, e.g. "(i32 i32) -> (i64)".
func (t FuncType) String() string {
	return "(" + typeNames(t.Params) + ") -> (" + typeNames(t.Results) + ")"
}

func typeNames(types string) string {
	const most = 16
	var names []string
	for n := range len(types) {
		if n == most {
			names = append(names, "...")
			break
		}
		names = append(names, wasmbin.TypeName(types[n]))
	}
	return strings.Join(names, " ")
}
