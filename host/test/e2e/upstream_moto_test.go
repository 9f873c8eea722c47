//go:build upstream

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The tests with the build tag upstream need moto, an AWS in memory:
// testdata/moto/up starts one, make test-upstream does all. What they assert of
// the cloud is asked of moto directly.
//
// Inventions of moto 5.1.1 that show here: a network load balancer's ARN says
// loadbalancer/app, and its security groups are kept but not enforced.

const (
	awsRegion = "eu-central-1"
	awsZone   = "eu-central-1a"
	awsTag    = "kubernetes.io/cluster/kubernetes"
)

// motoCloud is moto with a network of its own for a cluster.
type motoCloud struct {
	url                           string
	vpc, subnet, group, routes    string
	instances, privateDNS, privIP []string
}

var awsVersions = map[string]string{"ec2": "2016-11-15", "elasticloadbalancing": "2012-06-01", "elasticloadbalancingv2": "2015-12-01"}

// newMoto empties the cloud, and makes a network and machines.
func newMoto(t *testing.T, machines int) *motoCloud {
	t.Helper()
	m := &motoCloud{url: os.Getenv("MOTO_URL")}
	if m.url == "" {
		t.Fatal("MOTO_URL is not set: run make test-upstream")
	}
	m.post(t, "/moto-api/reset", "", nil)
	m.vpc = first(t, `<vpcId>(vpc-[0-9a-f]+)<`, m.ask(t, "ec2", "CreateVpc", "CidrBlock", "10.0.0.0/16"))
	m.subnet = first(t, `<subnetId>(subnet-[0-9a-f]+)<`, m.ask(t, "ec2", "CreateSubnet", "VpcId", m.vpc, "CidrBlock", "10.0.0.0/18", "AvailabilityZone", awsZone))
	m.group = first(t, `<groupId>(sg-[0-9a-f]+)<`, m.ask(t, "ec2", "CreateSecurityGroup", "GroupName", "nodes", "GroupDescription", "nodes", "VpcId", m.vpc))
	gateway := first(t, `<internetGatewayId>(igw-[0-9a-f]+)<`, m.ask(t, "ec2", "CreateInternetGateway"))
	m.ask(t, "ec2", "AttachInternetGateway", "InternetGatewayId", gateway, "VpcId", m.vpc)
	m.routes = first(t, `<routeTableId>(rtb-[0-9a-f]+)<`, m.ask(t, "ec2", "DescribeRouteTables", "Filter.1.Name", "vpc-id", "Filter.1.Value.1", m.vpc))
	m.ask(t, "ec2", "CreateRoute", "RouteTableId", m.routes, "DestinationCidrBlock", "0.0.0.0/0", "GatewayId", gateway)
	m.ask(t, "ec2", "CreateTags", "ResourceId.1", m.subnet, "ResourceId.2", m.group, "ResourceId.3", m.routes, "Tag.1.Key", awsTag, "Tag.1.Value", "owned")
	m.ask(t, "ec2", "CreateTags", "ResourceId.1", m.subnet, "Tag.1.Key", "kubernetes.io/role/elb", "Tag.1.Value", "1")
	answer := m.ask(t, "ec2", "RunInstances", "ImageId", "ami-12345678", "MinCount", fmt.Sprint(machines), "MaxCount", fmt.Sprint(machines), "InstanceType", "m5.large",
		"SubnetId", m.subnet, "SecurityGroupId.1", m.group, "TagSpecification.1.ResourceType", "instance", "TagSpecification.1.Tag.1.Key", awsTag, "TagSpecification.1.Tag.1.Value", "owned")
	m.instances, m.privateDNS, m.privIP = all(`<instanceId>(i-[0-9a-f]+)<`, answer), all(`<privateDnsName>(ip-[^<]+)<`, answer), all(`</vpcId><privateIpAddress>([^<]+)<`, answer)
	if len(m.instances) != machines || len(m.privateDNS) < machines || len(m.privIP) < machines {
		t.Fatalf("machines: %s", answer)
	}
	m.privateDNS = slices.Compact(m.privateDNS)[:machines]
	return m
}

// ask sends an action to moto itself, by names and values.
func (m *motoCloud) ask(t *testing.T, service, action string, values ...string) string {
	t.Helper()
	form := url.Values{"Action": {action}, "Version": {awsVersions[service]}}
	for i := 0; i+1 < len(values); i += 2 {
		form.Set(values[i], values[i+1])
	}
	return m.post(t, "/", strings.TrimSuffix(service, "v2"), form)
}

func (m *motoCloud) post(t *testing.T, path, service string, form url.Values) string {
	t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, m.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=TEST/20260101/"+awsRegion+"/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", form.Get("Action"), response.Status, err, body)
	}
	return string(body)
}

func all(pattern, text string) (found []string) {
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[len(match)-1])
	}
	return found
}

func first(t *testing.T, pattern, text string) string {
	t.Helper()
	found := all(pattern, text)
	if len(found) == 0 {
		t.Fatalf("no %s in %s", pattern, text)
	}
	return found[0]
}

// balancers are the names of the classic and of the network load balancers.
func (m *motoCloud) balancers(t *testing.T) (classic, network []string) {
	t.Helper()
	classic = all(`<LoadBalancerName>([^<]+)<`, m.ask(t, "elasticloadbalancing", "DescribeLoadBalancers"))
	network = all(`<LoadBalancerName>([^<]+)<`, m.ask(t, "elasticloadbalancingv2", "DescribeLoadBalancers"))
	return classic, network
}

// podRoutes are the destinations of the cluster's routes.
func (m *motoCloud) podRoutes(t *testing.T) []string {
	t.Helper()
	answer := m.ask(t, "ec2", "DescribeRouteTables", "RouteTableId.1", m.routes)
	routes := all(`<destinationCidrBlock>(10\.244\.[^<]+)<`, answer)
	slices.Sort(routes)
	return routes
}

// identifiers differ from run to run.
var identifiers = regexp.MustCompile(`\b(vpc|subnet|sg|igw|rtb|rtbassoc|eni|eni-attach|vol|i|r|ami|sgr|acl|aclassoc|dopt|pcx|eipalloc|eipassoc)-[0-9a-f]{8,17}\b|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-fA-F]{12}|\ba[0-9a-f]{31}\b|\b[0-9a-f]{16,17}\b|\d{4}-\d\d-\d\dT[0-9:.]+Z?|<RequestId>\w+<|(?:k8s-compared-s\d-)[0-9a-f]{10}`)

// state describes what the cloud keeps for the cluster, without what differs
// from run to run. Services and nodes have the same names in each.
func (m *motoCloud) state(t *testing.T, services []corev1.Service) string {
	t.Helper()
	var b strings.Builder
	names := map[string]string{}
	for i := range services {
		names["a"+strings.ReplaceAll(string(services[i].UID), "-", "")[:31]] = "LB(" + services[i].Name + ")"
	}
	for i, id := range m.instances {
		names[id] = fmt.Sprintf("MACHINE(%d)", i)
	}
	for _, ask := range [][2]string{
		{"elasticloadbalancing", "DescribeLoadBalancers"}, {"elasticloadbalancingv2", "DescribeLoadBalancers"},
		{"elasticloadbalancingv2", "DescribeTargetGroups"}, {"ec2", "DescribeSecurityGroups"}, {"ec2", "DescribeRouteTables"},
	} {
		text := m.ask(t, ask[0], ask[1])
		for name, stands := range names {
			text = strings.ReplaceAll(text, name, stands)
		}
		items := strings.Split(identifiers.ReplaceAllString(text, "ID"), "<member><LoadBalancerName>")
		fmt.Fprintf(&b, "== %s %s\n", ask[0], ask[1])
		lines := strings.Split(strings.ReplaceAll(strings.Join(items, "\n<member><LoadBalancerName>"), "><", ">\n<"), "\n")
		slices.Sort(lines) // moto keeps the order of making
		b.WriteString(strings.Join(lines, "\n") + "\n")
	}
	return b.String()
}
