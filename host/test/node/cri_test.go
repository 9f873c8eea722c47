//go:build node

package node_test

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"
)

// askCRI asks containerd for what a kubelet asks first. It is refused until
// containerd has found out what ran before: after a loss of power that comes
// later than its other services, and a kubelet that is refused ends.
func (n *node) askCRI(ctx context.Context) error {
	conn, err := grpc.NewClient("unix://"+n.file("/run/containerd/containerd.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("containerd of %s: %w", n.name, err)
	}
	defer conn.Close()
	if err := conn.Invoke(ctx, "/runtime.v1.RuntimeService/Version", &emptypb.Empty{}, &emptypb.Empty{}); err != nil {
		return fmt.Errorf("containerd of %s: %w", n.name, err)
	}
	return nil
}
