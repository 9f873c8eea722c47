package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/wasm-ccm/wasm-ccm/abi"
	"github.com/wasm-ccm/wasm-ccm/host/internal/cloud/addresses"
)

func ptr[T any](v T) *T { return &v }

func TestService(t *testing.T) {
	full := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", DeletionTimestamp: &metav1.Time{},
			Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}},
		Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, AppProtocol: ptr("http"), Port: 80, TargetPort: intstr.FromInt32(8080), NodePort: 30080},
				{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, TargetPort: intstr.FromString("dns")},
			},
			ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1", "fd00::1"}, ExternalIPs: []string{"192.0.2.9"},
			LoadBalancerIP: "192.0.2.8", LoadBalancerSourceRanges: []string{"198.51.100.0/24"}, LoadBalancerClass: ptr("c"),
			SessionAffinity:       corev1.ServiceAffinityClientIP,
			SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr(int32(60))}},
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: 31000,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, IPFamilyPolicy: ptr(corev1.IPFamilyPolicyPreferDualStack),
			AllocateLoadBalancerNodePorts: ptr(false),
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{
			{IP: "192.0.2.8", IPMode: ptr(corev1.LoadBalancerIPModeProxy), Ports: []corev1.PortStatus{{Port: 80, Protocol: "TCP", Error: ptr("e")}}}}}},
	}
	tests := map[string]struct {
		in   *corev1.Service
		want *abi.Service
	}{
		"empty": {&corev1.Service{}, &abi.Service{AllocateNodePorts: true, Status: &abi.LoadBalancerStatus{}}},
		"only the old clusterIP": {
			&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.1"}},
			&abi.Service{ClusterIps: []string{"10.96.0.1"}, AllocateNodePorts: true, Status: &abi.LoadBalancerStatus{}},
		},
		"full": {full, &abi.Service{
			Namespace: "default", Name: "web", Uid: "u", Deleting: true,
			Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
			Ports: []*abi.ServicePort{
				{Name: "http", Protocol: "TCP", AppProtocol: "http", Port: 80, TargetPort: "8080", NodePort: 30080},
				{Name: "dns", Protocol: "UDP", Port: 53, TargetPort: "dns"},
			},
			ClusterIps: []string{"10.96.0.1", "fd00::1"}, ExternalIps: []string{"192.0.2.9"},
			LoadBalancerIp: "192.0.2.8", LoadBalancerSourceRanges: []string{"198.51.100.0/24"}, LoadBalancerClass: "c",
			SessionAffinity: "ClientIP", SessionAffinityTimeoutSeconds: 60, ExternalTrafficPolicy: "Local", HealthCheckNodePort: 31000,
			IpFamilies: []string{"IPv4", "IPv6"}, IpFamilyPolicy: "PreferDualStack",
			Status: &abi.LoadBalancerStatus{Ingress: []*abi.LoadBalancerIngress{
				{Ip: "192.0.2.8", IpMode: "Proxy", Ports: []*abi.PortStatus{{Port: 80, Protocol: "TCP", Error: "e"}}}}},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Service(test.in), messages); diff != "" {
				t.Error(diff)
			}
		})
	}
	// The status of a Service is one that the guest may answer again.
	if status, err := CloudLoadBalancerStatus(Service(full).Status, addresses.Default()); err != nil || status.Ingress[0].IP != "192.0.2.8" {
		t.Errorf("status after a round trip: %v, %v", status, err)
	}
}

func TestRoute(t *testing.T) {
	target := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
	want := &abi.Route{Name: "r", TargetNode: "n1", DestinationCidr: "10.0.0.0/24", HasTargetNodeAddresses: true,
		TargetNodeAddresses: []*abi.NodeAddress{{Type: abi.AddressType_ADDRESS_TYPE_INTERNAL_IP, Address: "192.0.2.1"}}}
	// Upstream's route for CreateRoute has addresses without the flag.
	in := &cloudprovider.Route{Name: "r", TargetNode: "n1", DestinationCIDR: "10.0.0.0/24", TargetNodeAddresses: target}
	if diff := cmp.Diff(want, Route(in), messages); diff != "" {
		t.Error(diff)
	}
	listed, _, err := CloudRoutes([]*abi.Route{want}, addresses.Default())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, Route(listed[0]), messages); diff != "" {
		t.Errorf("a listed route must come back as it was for DeleteRoute: %s", diff)
	}
	if Route(nil) != nil {
		t.Error("a nil route became a message")
	}
}

func TestVolumeSources(t *testing.T) {
	tests := map[string]struct {
		source     corev1.PersistentVolumeSource
		id, driver string
		attributes map[string]string
	}{
		"gcePersistentDisk":    {source: corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "d", FSType: "ext4"}}, id: "d", attributes: map[string]string{"pdName": "d", "fsType": "ext4"}},
		"awsElasticBlockStore": {source: corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1", Partition: 3}}, id: "vol-1", attributes: map[string]string{"volumeID": "vol-1"}},
		"hostPath":             {source: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/p", Type: ptr(corev1.HostPathDirectory)}}, id: "/p", attributes: map[string]string{"path": "/p", "type": "Directory"}},
		"glusterfs":            {source: corev1.PersistentVolumeSource{Glusterfs: &corev1.GlusterfsPersistentVolumeSource{EndpointsName: "e", Path: "p"}}, id: "p", attributes: map[string]string{"endpoints": "e", "path": "p"}},
		"nfs":                  {source: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/p"}}, id: "/p", attributes: map[string]string{"server": "s", "path": "/p"}},
		"rbd":                  {source: corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{RBDImage: "i", RBDPool: "p", CephMonitors: []string{"m"}, SecretRef: &corev1.SecretReference{Name: "hidden"}}}, id: "i", attributes: map[string]string{"image": "i", "pool": "p"}},
		"iscsi":                {source: corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "t", IQN: "q", Lun: 1}}, attributes: map[string]string{"targetPortal": "t", "iqn": "q"}},
		"cinder":               {source: corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "v"}}, id: "v", attributes: map[string]string{"volumeID": "v"}},
		"cephfs":               {source: corev1.PersistentVolumeSource{CephFS: &corev1.CephFSPersistentVolumeSource{Path: "/p", User: "u"}}, id: "/p", attributes: map[string]string{"path": "/p", "user": "u"}},
		"fc":                   {source: corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{WWIDs: []string{"w"}, FSType: "xfs"}}, attributes: map[string]string{"fsType": "xfs"}},
		"flocker":              {source: corev1.PersistentVolumeSource{Flocker: &corev1.FlockerVolumeSource{DatasetUUID: "u"}}, id: "u", attributes: map[string]string{"datasetUUID": "u"}},
		"flexVolume":           {source: corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Driver: "d", Options: map[string]string{"o": "1"}}}, attributes: map[string]string{"driver": "d"}},
		"azureFile":            {source: corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "s", ShareName: "x"}}, id: "x", attributes: map[string]string{"secretName": "s", "shareName": "x"}},
		"vsphereVolume":        {source: corev1.PersistentVolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "[ds] d.vmdk"}}, id: "[ds] d.vmdk", attributes: map[string]string{"volumePath": "[ds] d.vmdk"}},
		"quobyte":              {source: corev1.PersistentVolumeSource{Quobyte: &corev1.QuobyteVolumeSource{Registry: "r", Volume: "v"}}, id: "v", attributes: map[string]string{"registry": "r", "volume": "v"}},
		"azureDisk":            {source: corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: "/u", Kind: ptr(corev1.AzureManagedDisk)}}, id: "/u", attributes: map[string]string{"diskName": "d", "diskURI": "/u", "kind": "Managed"}},
		"photonPersistentDisk": {source: corev1.PersistentVolumeSource{PhotonPersistentDisk: &corev1.PhotonPersistentDiskVolumeSource{PdID: "p"}}, id: "p", attributes: map[string]string{"pdID": "p"}},
		"portworxVolume":       {source: corev1.PersistentVolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{VolumeID: "v"}}, id: "v", attributes: map[string]string{"volumeID": "v"}},
		"scaleIO":              {source: corev1.PersistentVolumeSource{ScaleIO: &corev1.ScaleIOPersistentVolumeSource{Gateway: "g", System: "s", VolumeName: "v"}}, id: "v", attributes: map[string]string{"gateway": "g", "system": "s", "volumeName": "v"}},
		"local":                {source: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/d"}}, id: "/mnt/d", attributes: map[string]string{"path": "/mnt/d"}},
		"storageos":            {source: corev1.PersistentVolumeSource{StorageOS: &corev1.StorageOSPersistentVolumeSource{VolumeName: "v"}}, id: "v", attributes: map[string]string{"volumeName": "v"}},
		"csi": {source: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.org", VolumeHandle: "h", FSType: "ext4",
			VolumeAttributes: map[string]string{"k": "v"}}}, id: "h", driver: "csi.example.org", attributes: map[string]string{"k": "v"}},
		"": {},
	}
	for source, test := range tests {
		t.Run(source, func(t *testing.T) {
			pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: test.source}}
			got, err := Volume(pv)
			check(t, got, err, &abi.Volume{Source: source, VolumeId: test.id, Driver: test.driver, Attributes: test.attributes}, "")
		})
	}
}

func TestVolume(t *testing.T) {
	hostname := func(names ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: names}}}
	}
	zone := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z"}}}}
	tests := map[string]struct {
		terms []corev1.NodeSelectorTerm
		want  []string
	}{
		"one":                    {[]corev1.NodeSelectorTerm{hostname("n1")}, []string{"n1"}},
		"alternatives":           {[]corev1.NodeSelectorTerm{hostname("n2", "n1"), hostname("n1")}, []string{"n1", "n2"}},
		"one is free":            {[]corev1.NodeSelectorTerm{hostname("n1"), zone}, nil},
		"hostname within a zone": {[]corev1.NodeSelectorTerm{{MatchExpressions: append(zone.MatchExpressions, hostname("n1").MatchExpressions...)}}, []string{"n1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Volume(&corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "u", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}},
				Spec: corev1.PersistentVolumeSpec{
					StorageClassName: "fast", Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/d"}},
					NodeAffinity:           &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: test.terms}},
				},
			})
			check(t, got, err, &abi.Volume{
				Name: "pv", Uid: "u", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
				Source: "local", VolumeId: "/d", Attributes: map[string]string{"path": "/d"},
				StorageClass: "fast", CapacityBytes: 1 << 30, NodeNames: test.want,
			}, "")
		})
	}
}
