package bench_test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// The gRPC baseline: the same messages, the same codec and the same logic in
// another process behind a unix socket, as out-of-process plugins are.

const (
	grpcSocketEnv = "CCM_BENCH_GRPC_SOCKET"
	grpcMethod    = "/ccm.v1.Provider/InstanceMetadata"
)

// vtCodec makes gRPC use the ABI's generated codec instead of reflection.
type vtCodec struct{}

func (vtCodec) Name() string { return "proto" }

func (vtCodec) Marshal(v any) ([]byte, error) {
	m := v.(abi.Message)
	data := make([]byte, m.SizeVT())
	_, err := m.MarshalToSizedBufferVT(data)
	return data, err
}

func (vtCodec) Unmarshal(data []byte, v any) error { return v.(abi.Message).UnmarshalVT(data) }

type metadataFunc func(*abi.Node) *abi.InstanceMetadata

//nolint:revive // the signature is gRPC's
func (f metadataFunc) handle(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	req := &abi.InstanceRequest{}
	if err := decode(req); err != nil {
		return nil, err
	}
	return &abi.InstanceMetadataResponse{Metadata: f(req.Node)}, nil
}

// serveGRPC serves on a unix socket until its standard input ends, which it
// does when the parent is gone.
func serveGRPC(socket string, f metadataFunc) error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.ForceServerCodec(vtCodec{}))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "ccm.v1.Provider",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "InstanceMetadata", Handler: f.handle}},
	}, struct{}{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		server.Stop()
	}()
	return server.Serve(listener)
}

// newGRPCClient starts the server as a process of its own, which is this test
// again, and returns a connection to it.
func newGRPCClient(tb testing.TB) *grpc.ClientConn {
	tb.Helper()
	socket := filepath.Join(tb.TempDir(), "grpc.sock")
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), grpcSocketEnv+"="+socket)
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := server.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = stdin.Close()
		_ = server.Wait()
	})
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(vtCodec{}), grpc.WaitForReady(true)))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}
