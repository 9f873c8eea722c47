package module

import (
	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
)

// wasiModule is the import module of WASI preview 1. Compilers link to it for
// their runtime: the clock, random numbers, arguments and standard output
// work, everything else answers "not supported".
const wasiModule = "wasi_snapshot_preview1"

// wasiExit is the only function of WASI without a result.
const wasiExit = "proc_exit"

// wasiParams returns the parameters of each function of WASI preview 1, i for
// i32 and I for i64.
func wasiParams() map[string]string {
	return map[string]string{
		"args_get": "ii", "args_sizes_get": "ii", "environ_get": "ii", "environ_sizes_get": "ii",
		"clock_res_get": "ii", "clock_time_get": "iIi",
		"fd_advise": "iIIi", "fd_allocate": "iII", "fd_close": "i", "fd_datasync": "i",
		"fd_fdstat_get": "ii", "fd_fdstat_set_flags": "ii", "fd_fdstat_set_rights": "iII",
		"fd_filestat_get": "ii", "fd_filestat_set_size": "iI", "fd_filestat_set_times": "iIIi",
		"fd_pread": "iiiIi", "fd_prestat_dir_name": "iii", "fd_prestat_get": "ii", "fd_pwrite": "iiiIi",
		"fd_read": "iiii", "fd_readdir": "iiiIi", "fd_renumber": "ii", "fd_seek": "iIii",
		"fd_sync": "i", "fd_tell": "ii", "fd_write": "iiii",
		"path_create_directory": "iii", "path_filestat_get": "iiiii", "path_filestat_set_times": "iiiiIIi",
		"path_link": "iiiiiii", "path_open": "iiiiiIIii", "path_readlink": "iiiiii",
		"path_remove_directory": "iii", "path_rename": "iiiiii", "path_symlink": "iiiii", "path_unlink_file": "iii",
		"poll_oneoff": "iiii", wasiExit: "i", "proc_raise": "i", "random_get": "ii", "sched_yield": "",
		"sock_accept": "iii", "sock_recv": "iiiiii", "sock_send": "iiiii", "sock_shutdown": "ii",
	}
}

func checkWASIImport(i Import) error {
	params, known := wasiParams()[i.Name]
	if !known {
		return errorf(ReasonImportUnknown, "import %s.%s is not part of WASI preview 1; build the guest for wasip1, or as a wasm module without WASI", i.Module, text.Name(i.Name))
	}
	if want := wasiType(i.Name, params); i.Type != want {
		return errorf(ReasonImportInvalid, "import %s.%s is %s, must be %s", i.Module, i.Name, i.Type, want)
	}
	return nil
}

func wasiType(name, params string) FuncType {
	var t FuncType
	for _, p := range params {
		if p == 'I' {
			t.Params += I64
		} else {
			t.Params += I32
		}
	}
	if name != wasiExit {
		t.Results = I32
	}
	return t
}

// nextABI is the start of the import modules of every version of the ABI.
const nextABI = "ccm_v"

// checkModuleName explains an unknown import module.
func checkModuleName(i Import) error {
	name := text.Name(i.Module)
	if len(i.Module) > len(nextABI) && i.Module[:len(nextABI)] == nextABI {
		return errorf(ReasonABIUnsupported, "the guest imports from %s, this manager speaks %s; use a manager or a guest of the other's version", name, abi.ImportModule)
	}
	return errorf(ReasonImportUnknown, "import %s.%s: there is no module %s; guests import from %q and %q only",
		name, text.Name(i.Name), name, abi.ImportModule, wasiModule)
}
