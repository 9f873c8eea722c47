package bench_test

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/wasm-ccm/wasm-ccm/abi"
)

// The gRPC baseline: the same messages, the same codec and the same logic, in
// a server in another goroutine behind a unix socket. A real one would be
// another process; this is the cheaper case, and so the harder comparison.

const grpcMethod = "/ccm.v1.Provider/InstanceMetadata"

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

func (f metadataFunc) handle(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	req := &abi.InstanceRequest{}
	if err := decode(req); err != nil {
		return nil, err
	}
	return &abi.InstanceMetadataResponse{Metadata: f(req.Node)}, nil
}

// newGRPCClient starts a server on a unix socket and returns a connection.
func newGRPCClient(tb testing.TB, f metadataFunc) *grpc.ClientConn {
	tb.Helper()
	socket := filepath.Join(tb.TempDir(), "grpc.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(vtCodec{}))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "ccm.v1.Provider",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "InstanceMetadata", Handler: f.handle}},
	}, struct{}{})
	go func() { _ = server.Serve(listener) }()
	tb.Cleanup(server.Stop)
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(vtCodec{})))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}
